package processes

import (
	"strings"
	"testing"
)

func TestAChildIsRecycledPastItsMemoryWithoutACrash(t *testing.T) {
	t.Parallel()
	p := newParent(t, "0", func(s *Spec) { s.Recycle.Memory = 1 })
	stop := p.start(t)
	eventually(t, "it was recycled twice", func() bool { return strings.Count(p.log.String(), "msg=process.recycled") >= 2 })
	if s := p.Status()[0]; s.Restarts != 0 || s.State == StateFailed {
		t.Errorf("it is %+v", s)
	}
	if err := stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
}
