package config_test

import "testing"

func TestASmallFileUsesNothingThatIsNotBuilt(t *testing.T) {
	t.Parallel()
	faults, warnings := mustLoad(t, small(), nil).Select(nil)
	if len(faults) > 0 || len(warnings) > 0 {
		t.Errorf("faults %v, warnings %v", faults, warnings)
	}
}
