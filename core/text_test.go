package core

import "testing"

func TestCutTextCutsBetweenCharacters(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		max  int
		want string
	}{
		{"short", 10, "short"},
		{"exactly", 7, "exactly"},
		{"ääää", 5, "ää"},
		{"a€", 3, "a"},
		{"a€", 4, "a€"},
		{"😀😀", 7, "😀"},
		{"x", 0, ""},
		{"x", -1, ""},
		{"bad\xff\xfebytes", 20, "bad?bytes"},
		{"cut\xe2\x82", 4, "cut"},
	} {
		if got := CutText(c.text, c.max); got != c.want {
			t.Errorf("CutText(%q, %d) = %q, want %q", c.text, c.max, got, c.want)
		}
	}
}
