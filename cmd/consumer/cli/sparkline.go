package cli

import (
	"math"
	"strings"
)

// sparkline draws the last values, one a cell, between 0 and the largest of them;
// NaN is a gap.
func sparkline(values []float64, width int) string {
	const blocks = "▁▂▃▄▅▆▇█"
	steps := []rune(blocks)
	if width <= 0 {
		return ""
	}
	values = values[max(0, len(values)-width):]
	top := 0.0
	for _, v := range values {
		if v > top { // never of NaN
			top = v
		}
	}
	var line strings.Builder
	line.WriteString(strings.Repeat(" ", width-len(values)))
	for _, v := range values {
		switch {
		case math.IsNaN(v):
			line.WriteByte(' ')
		case top == 0:
			line.WriteRune(steps[0])
		default:
			line.WriteRune(steps[int(math.Round(max(v, 0)/top*float64(len(steps)-1)))])
		}
	}
	return line.String()
}
