package testredis

import "testing"

func TestServerKeepsItsDataOverAKillWithAppendOnly(t *testing.T) {
	t.Parallel()
	s := Start(t, "--appendonly", "yes", "--appendfsync", "always")
	if err := s.Client().Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	s.Kill()
	s.Restart()
	if got, err := s.Client().Get(t.Context(), "k").Result(); got != "v" || err != nil {
		t.Fatalf("got %q, %v after the restart", got, err)
	}
}

func TestServersAreApart(t *testing.T) {
	t.Parallel()
	a, b := Start(t), Start(t)
	if err := a.Client().Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if n, err := b.Client().Exists(t.Context(), "k").Result(); n != 0 || err != nil {
		t.Fatalf("the other server has the key: %d, %v", n, err)
	}
}
