package deadletter

import (
	"strings"
	"testing"
)

func TestAnEntryIsExportedAsOneLineWithItsValuesAsTheyAre(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 20_000) + "\n" + strings.Repeat("]", 20_000)
	for name, c := range map[string]struct{ stored, want string }{
		"a record":      {`{"job": {"jobType":"t", "n":1.0}, "error":"<&>","at":1}`, `{"job": {"jobType":"t", "n":1.0}, "error":"<&>","at":1}`},
		"line breaks":   {"{\"job\":{\r\n  \"n\": 9007199254740993,\n \"s\":\"a  b\\n<\u2028\", \"f\":1.0,\"e\":{ }}\n}", "{\"job\":{\"n\":9007199254740993,\"s\":\"a  b\\n<\u2028\",\"f\":1.0,\"e\":{}}}"},
		"no JSON":       {"gar\nbage", `{"job":null,"raw":"Z2FyCmJhZ2U=","error":"the entry is not a dead-letter record","at":0,"reason":"malformed","queue":"","process":"","transport":""}`},
		"no object":     {`[1]`, `{"job":null,"raw":"WzFd","error":"the entry is not a dead-letter record","at":0,"reason":"malformed","queue":"","process":"","transport":""}`},
		"nested deeply": {deep, ""},
	} {
		got := string(AppendLine(nil, Read([]byte(c.stored))))
		if strings.ContainsAny(got, "\r\n") || c.want != "" && got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
	}
	if got := string(OneLine([]byte(deep))); got != strings.ReplaceAll(deep, "\n", " ") {
		t.Errorf("a text that is nested too deeply: %d bytes of %d", len(got), len(deep))
	}
}
