package redis

import (
	"crypto/sha1"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/goconsumer/consumer/core"
)

// keys are the names of one queue's keys; doc.go says what each holds.
type keys struct {
	lists []string // every ready list that is read, in the order in which they run
	// places has one digit for each priority from critical to low: the number (from
	// 1) of its list. Where priorities don't count it is one digit for all jobs.
	places string
	ready  string // the plain list, one of lists

	delay     string
	unit      int64  // microseconds of one unit of delay's scores
	php       bool   // PHP works on these keys too
	dead      string // dead letters
	deadRaw   string // those without a job; dead where nobody minds them there
	members   string
	consumers string
	gone      string
	found     string
	bell      string
	paused    string
	// The two of one consumer: prefix + its id.
	processing string
	sequence   string
	// kin ends the id of every consumer that reads this plain list, and of no other:
	// processes with the same queue name and other lists share the keys above.
	kin string
}

// newKeys names the keys of b's queue.
func newKeys(b core.Binding, o Options) keys {
	tagged := "{" + b.Queue + "}"
	if o.KeyStyle == KeyStylePlain {
		tagged = b.Queue
	}
	name := func(part string) string { return o.Prefix + ":" + part + ":" + tagged }
	k := keys{
		ready:      name("ready"),
		delay:      name("delay"),
		unit:       1000,
		dead:       o.DeadPrefix + tagged,
		members:    name("members"),
		consumers:  name("consumers"),
		gone:       name("gone"),
		found:      name("found"),
		bell:       name("bell"),
		paused:     name("paused"),
		processing: name("processing") + ":",
		sequence:   name("seq") + ":",
	}
	own := o.Keys
	if o.KeyStyle == KeyStyleSwoolefy {
		k.ready, k.delay, k.unit, k.php = b.Queue, b.Queue+":retry_queue_sort", 1_000_000, true
		k.dead = o.DeadPrefix + b.Queue
		own.Priority = orElse(own.Priority, b.Queue+":priority_queue")
	}
	k.ready, k.delay, k.dead = orElse(own.Ready, k.ready), orElse(own.Delay, k.delay), orElse(own.Dead, k.dead)
	k.deadRaw = k.dead
	if o.KeyStyle != KeyStyleHashtag {
		k.deadRaw += ":raw"
	}
	k.rank(own.Priority, b.Priority == core.PriorityLevels)
	if k.ready != name("ready") {
		sum := sha1.Sum([]byte(k.ready))
		k.kin = "~" + hex.EncodeToString(sum[:4])
	}
	return k
}

// rank chooses the ready lists. first is a single list before the plain one: it is
// read whatever the process says about priorities, since those who push there count
// on it, and has the place of the three highest.
func (k *keys) rank(first string, levels bool) {
	switch {
	case first != "":
		k.lists, k.places = []string{first, k.ready}, "2"
		if levels {
			k.places = "11122"
		}
	case levels:
		k.lists = nil
		for _, p := range core.Priorities() {
			list := k.ready
			if p != core.PriorityNormal {
				list += ":" + p.String()
			}
			k.lists = append(k.lists, list)
		}
		k.places = "12345"
	default:
		k.lists, k.places = []string{k.ready}, "1"
	}
}

// graves are the lists of dead letters.
func (k *keys) graves() []string {
	if k.deadRaw == k.dead {
		return []string{k.dead}
	}
	return []string{k.dead, k.deadRaw}
}

// others are the lists that are read beside the plain one.
func (k *keys) others() []string {
	return slices.DeleteFunc(slices.Clone(k.lists), func(list string) bool { return list == k.ready })
}

// ranked says whether a job's priority chooses its list.
func (k *keys) ranked() bool { return len(k.places) > 1 }

// place is the number of the list of jobs with this priority.
func (k *keys) place(p core.Priority) int {
	level := 0
	if k.ranked() {
		level = slices.Index(core.Priorities(), p)
	}
	return int(k.places[level] - '0')
}

// placeOf is the number of a job's list.
func (k *keys) placeOf(body []byte) int {
	if k.ranked() {
		if job, err := core.Decode(body); err == nil {
			p, _ := job.Meta.Priority()
			return k.place(p)
		}
	}
	return k.place(core.PriorityNormal)
}

// isKin says whether a consumer reads the same list: another's jobs are recovered
// by its own kin, since they belong in other lists.
func (k *keys) isKin(id string) bool {
	_, kin, _ := strings.Cut(id, "~")
	return strings.TrimPrefix(k.kin, "~") == kin
}

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
