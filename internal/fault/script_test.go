package fault

import "testing"

func TestScriptActsAtTheNamedPassesOnly(t *testing.T) {
	t.Parallel()
	s, err := Parse("engine.decoded=kill@3, engine.settled=fail@1-2:stall=500ms@2-,engine.handled=fail")
	if err != nil {
		t.Fatal(err)
	}
	want := map[Point][][]kind{
		EngineDecoded: {nil, nil, {kindKill}, nil},
		EngineSettled: {{kindFail}, {kindFail, kindStall}, {kindStall}},
		EngineHandled: {{kindFail}, {kindFail}},
		EngineDecided: {nil},
	}
	for p, passes := range want {
		for i, kinds := range passes {
			_, actions := s.pass(p)
			if len(actions) != len(kinds) {
				t.Fatalf("%s pass %d: got %v, want %v", p, i+1, actions, kinds)
			}
			for j, a := range actions {
				if a.kind != kinds[j] {
					t.Errorf("%s pass %d: got %s, want %s", p, i+1, a.kind, kinds[j])
				}
			}
		}
	}
}

func TestScriptRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"engine.decode=kill", "engine.decoded", "engine.decoded=maim", "engine.decoded=kill=1",
		"engine.decoded=stall", "engine.decoded=stall=5", "engine.decoded=kill@0",
		"engine.decoded=kill@x", "engine.decoded=kill@5-3", "engine.decoded=kill@1,",
	} {
		if _, err := Parse(text); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}

func TestAnEmptyScriptDoesNothing(t *testing.T) {
	t.Parallel()
	s, err := Parse(" ")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range Points() {
		if _, actions := s.pass(p); actions != nil {
			t.Errorf("%s: got %v", p, actions)
		}
	}
}
