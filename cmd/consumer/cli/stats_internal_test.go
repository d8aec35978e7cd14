package cli

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/goconsumer/consumer/cmd/consumer/config"
)

func TestSparklineScalesToItsLargestValue(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		values []float64
		width  int
		want   string
	}{
		{nil, 3, "   "},
		{[]float64{1, 2}, 0, ""},
		{[]float64{0, 0}, 4, "  ▁▁"},
		{[]float64{9, 9, 0, 7, math.NaN(), 3.5, 7}, 5, "▁█ ▅█"},
		{[]float64{-1, 4}, 2, "▁█"},
	} {
		if got := sparkline(c.values, c.width); got != c.want {
			t.Errorf("sparkline(%v, %d) = %q, want %q", c.values, c.width, got, c.want)
		}
	}
}

func TestRateIsWhatTheHostEndedOrTheLeastThatTheBrokerShows(t *testing.T) {
	t.Parallel()
	start := time.Now()
	then := func(settled *float64, waiting *int64) glance { return glance{start, settled, waiting} }
	now := func(settled *float64, waiting *int64) glance {
		return glance{start.Add(2 * time.Second), settled, waiting}
	}
	for name, c := range map[string]struct {
		then, now glance
		want      string
	}{
		"a host":                {then(new(10.0), new(int64(5))), now(new(25.0), new(int64(9))), "7.5"},
		"an idle host":          {then(new(10.0), nil), now(new(10.0), nil), "0"},
		"a host that restarted": {then(new(10.0), new(int64(9))), now(new(2.0), new(int64(5))), "-"},
		"a host that came":      {then(nil, new(int64(9))), now(new(2.0), new(int64(5))), "-"},
		"fewer waiting":         {then(nil, new(int64(9))), now(nil, new(int64(5))), "2"},
		"more waiting":          {then(nil, new(int64(5))), now(nil, new(int64(9))), "-"},
		"as many waiting":       {then(nil, new(int64(5))), now(nil, new(int64(5))), "-"},
		"nothing known":         {then(nil, nil), now(nil, nil), "-"},
		"tenths":                {then(new(0.0), nil), now(new(0.33), nil), "0.2"},
	} {
		if got := fmt.Sprint(dash(c.now.since(c.then))); got != c.want {
			t.Errorf("%s: rate %s, want %s", name, got, c.want)
		}
	}
}

func TestHostCountersCountWhatEndedForGood(t *testing.T) {
	t.Parallel()
	status, body := http.StatusOK, `# TYPE consumer_jobs_total counter
consumer_jobs_total{outcome="success",process="a",type="x"} 3
consumer_jobs_total{outcome="success",process="a",type="y"} 4
consumer_jobs_total{outcome="dead",process="a",type="y"} 2
consumer_jobs_total{outcome="requeued",process="a",type="y"} 9
consumer_jobs_total{outcome="requeued",process="b",type="other"} 1
`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	defer server.Close()
	counters := newHostCounters(&config.Admin{Listen: strings.TrimPrefix(server.URL, "http://")})
	defer counters.close()
	if got := fmt.Sprint(counters.settled(t.Context())); got != "map[a:9 b:0]" {
		t.Errorf("settled %s", got)
	}
	if body = "no metrics {"; counters.settled(t.Context()) != nil {
		t.Error("what are no metrics gave numbers")
	}
	if status, body = http.StatusNotFound, ""; counters.settled(t.Context()) != nil {
		t.Error("an error page gave numbers")
	}
	server.Close()
	if counters.settled(t.Context()) != nil {
		t.Error("nobody gave numbers")
	}
	for listen, url := range map[string]string{":9090": "http://127.0.0.1:9090/metrics", "0.0.0.0:1": "http://127.0.0.1:1/metrics", "[::]:1": "http://127.0.0.1:1/metrics", "h:1": "http://h:1/metrics"} {
		if h := newHostCounters(&config.Admin{Listen: listen}); h.url != url {
			t.Errorf("%s is asked at %s, want %s", listen, h.url, url)
		}
	}
	if newHostCounters(nil) != nil || newHostCounters(&config.Admin{Listen: "127.0.0.1:0"}) != nil {
		t.Error("an address that nobody knows is asked")
	}
}

func TestBoardFitsTheTerminal(t *testing.T) {
	t.Parallel()
	b := &board{title: "consumer stats, every 1s; q quits"}
	for i := range 300 {
		b.add([]processStats{
			{Process: "orders", Transport: "redis", Queue: "orders", Ready: new(int64(1000 * i)), Delayed: new(int64(12)), InFlight: new(int64(3)), Dead: new(int64(100000)), OldestSeconds: new(61.7), Rate: new(12.5)},
			{Process: "mails", Transport: "redis", Queue: "mails", err: errors.New("redis://user:secret@127.0.0.1:1 cannot\nbe reached")},
		})
	}
	if n := len(b.ready[0]); n != historyLen {
		t.Errorf("%d looks are kept, want %d", n, historyLen)
	}
	for _, size := range [][2]int{{200, 50}, {120, 24}, {80, 24}, {50, 6}, {30, 3}, {3, 2}, {1, 1}} {
		lines := b.lines(size[0], size[1])
		if len(lines) > size[1] {
			t.Errorf("%v: %d lines", size, len(lines))
		}
		for _, line := range lines {
			if n := utf8.RuneCountInString(line); n > size[0] || strings.ContainsAny(line, "\r\n") {
				t.Errorf("%v: a line of %d: %q", size, n, line)
			}
		}
		all := strings.Join(lines, "\n")
		for part, least := range map[string]int{"█": 120, "OLDEST": 100, "orders": 30, "299000": 50, "mails: ": 50} {
			if has := strings.Contains(all, part); size[0] >= least && !has {
				t.Errorf("%v: no %q in\n%s", size, part, all)
			}
		}
		if strings.Contains(all, "secret") {
			t.Errorf("%v: the password is on the screen", size)
		}
	}
}
