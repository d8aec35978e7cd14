package admin

import (
	"net/http"

	"github.com/goconsumer/consumer/processes"
)

// health is the body of /readyz.
type health struct {
	Ready     bool            `json:"ready"`
	Processes []processHealth `json:"processes"`
}

type processHealth struct {
	Process   string `json:"process"`
	Transport string `json:"transport"`
	Queue     string `json:"queue"`
	State     string `json:"state"`
	Ready     bool   `json:"ready"`
	Paused    bool   `json:"paused"`
	Reason    string `json:"reason,omitempty"`
	InFlight  int    `json:"in_flight"`
	Stuck     int    `json:"stuck"`
	Restarts  int64  `json:"restarts"`
	Isolation string `json:"isolation"`
	Replicas  int    `json:"replicas"`
	PIDs      []int  `json:"pids,omitempty"` // of child OS processes
}

func healthOf(status []processes.ProcessStatus) health {
	// A host without processes does no work, so it is not ready.
	h := health{Ready: len(status) > 0, Processes: []processHealth{}}
	for _, s := range status {
		h.Ready = h.Ready && s.Ready
		h.Processes = append(h.Processes, processHealth{
			Process: s.Name, Transport: s.Transport, Queue: s.Queue,
			State: string(s.State), Ready: s.Ready, Paused: s.State == processes.StatePaused, Reason: s.Reason,
			InFlight: s.Running, Stuck: s.Stuck, Restarts: s.Restarts,
			Isolation: string(s.Isolation), Replicas: s.Replicas, PIDs: s.PIDs,
		})
	}
	return h
}

// answerReady is 200 only when every hosted process is subscribed and fetching,
// or paused.
func answerReady(w http.ResponseWriter, status []processes.ProcessStatus) {
	h := healthOf(status)
	code := http.StatusOK
	if !h.Ready {
		code = http.StatusServiceUnavailable
	}
	write(w, code, h)
}

// answerLive asks for a restart only where nothing else helps: goroutines of
// stuck handlers can't be ended.
func answerLive(w http.ResponseWriter, status []processes.ProcessStatus) {
	for _, s := range status {
		if s.NeedsRestart {
			problem(w, http.StatusServiceUnavailable, "process "+s.Name+": "+s.Reason)
			return
		}
	}
	write(w, http.StatusOK, struct {
		Live bool `json:"live"`
	}{true})
}
