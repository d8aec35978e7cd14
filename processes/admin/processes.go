package admin

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/processes"
)

// addProcesses adds the routes that show and steer processes.
func addProcesses(mux *http.ServeMux, host Host) {
	mux.HandleFunc("GET /api/v1/processes", func(w http.ResponseWriter, _ *http.Request) {
		write(w, http.StatusOK, healthOf(host.Status()).Processes)
	})
	mux.HandleFunc("GET /api/v1/processes/{name}", func(w http.ResponseWriter, r *http.Request) {
		answerProcess(w, host, r.PathValue("name"))
	})
	for verb, do := range map[string]func(ctx context.Context, name string) error{
		"start":   func(_ context.Context, name string) error { return host.Start(name) },
		"stop":    func(_ context.Context, name string) error { return host.Stop(name) },
		"restart": func(_ context.Context, name string) error { return host.Restart(name) },
		"pause":   host.Pause,
		"resume":  host.Resume,
	} {
		mux.HandleFunc("POST /api/v1/processes/{name}/"+verb, func(w http.ResponseWriter, r *http.Request) {
			// A stop may take the process's whole shutdown_timeout.
			_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // else the answer is lost, not the stop
			name := r.PathValue("name")
			if err := do(r.Context(), name); err != nil {
				refuse(w, err)
				return
			}
			answerProcess(w, host, name)
		})
	}
}

// refuse answers with what kept a verb from being done.
func refuse(w http.ResponseWriter, err error) {
	code := http.StatusBadGateway // the broker's fault
	if _, ok := errors.AsType[*processes.UnknownProcessError](err); ok {
		code = http.StatusNotFound
	} else if _, ok := errors.AsType[*core.SetupError](err); ok {
		code = http.StatusUnprocessableEntity
	} else if errors.Is(err, processes.ErrStopping) {
		code = http.StatusConflict
	}
	problem(w, code, processes.MaskURL(err.Error()))
}

func answerProcess(w http.ResponseWriter, host Host, name string) {
	all := healthOf(host.Status()).Processes
	at := slices.IndexFunc(all, func(p processHealth) bool { return p.Process == name })
	if at < 0 {
		refuse(w, &processes.UnknownProcessError{Name: name})
		return
	}
	write(w, http.StatusOK, all[at])
}
