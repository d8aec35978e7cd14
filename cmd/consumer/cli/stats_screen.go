package cli

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"
)

// What a terminal is told: another screen without a cursor, and back; the start
// of the screen; to clear the rest of a line, and of the screen.
const (
	screenOpen  = "\x1b[?1049h\x1b[?25l"
	screenClose = "\x1b[?25h\x1b[?1049l"
	screenHome  = "\x1b[H"
	clearLine   = "\x1b[K"
	clearBelow  = "\x1b[J"
)

// resizePoll is how soon a new size of the terminal is seen. Not every system has
// a signal for it.
const resizePoll = 200 * time.Millisecond

// historyLen is how many looks a sparkline can show.
const historyLen = 240

// showStats draws the looks on the terminal until q, Ctrl-C or the end of ctx,
// and leaves the terminal as it was.
func (p *program) showStats(ctx context.Context, quit func(), interval time.Duration, looks <-chan []processStats) error {
	out := p.process.Stdout.(*os.File)
	if in, ok := p.process.Stdin.(*os.File); ok && isTerminal(in) {
		state, err := term.MakeRaw(int(in.Fd()))
		if err != nil {
			return fmt.Errorf("read keys from the terminal: %w", err)
		}
		defer func() { _ = term.Restore(int(in.Fd()), state) }()
		go readKeys(in, quit) // it stays behind only when the program is about to end
	}
	if _, err := io.WriteString(out, screenOpen); err != nil {
		return err
	}
	defer func() { _, _ = io.WriteString(out, screenClose) }()

	board := &board{title: fmt.Sprintf("%s stats, every %s; q quits", p.opts.Name, interval)}
	resize := time.NewTicker(resizePoll)
	defer resize.Stop()
	width, height := 0, 0
	for {
		changed := false
		select {
		case all := <-looks:
			board.add(all)
			changed = true
		case <-resize.C:
		case <-ctx.Done():
			return nil
		}
		w, h, err := term.GetSize(int(out.Fd()))
		if err != nil || w <= 0 || h <= 0 {
			w, h = 80, 24
		}
		if !changed && w == width && h == height {
			continue
		}
		width, height = w, h
		frame := screenHome + strings.Join(board.lines(width, height), clearLine+"\r\n") + clearLine + clearBelow
		if _, err := io.WriteString(out, frame); err != nil {
			return err
		}
	}
}

// readKeys quits at q, Ctrl-C, which a raw terminal sends as a byte, and the end
// of the terminal.
func readKeys(in io.Reader, quit func()) {
	defer quit()
	key := make([]byte, 1)
	for {
		if _, err := in.Read(key); err != nil || key[0] == 'q' || key[0] == 'Q' || key[0] == 3 {
			return
		}
	}
}

// board is the live table: the last look, and what sparklines need of those
// before.
type board struct {
	title string
	last  []processStats
	ready [][]float64 // by process; NaN = unknown
	rates [][]float64
}

func (b *board) add(all []processStats) {
	if b.last == nil {
		b.ready, b.rates = make([][]float64, len(all)), make([][]float64, len(all))
	}
	b.last = all
	for i, s := range all {
		ready, rate := math.NaN(), math.NaN()
		if s.Ready != nil {
			ready = float64(*s.Ready)
		}
		if s.Rate != nil {
			rate = *s.Rate
		}
		b.ready[i], b.rates[i] = remember(b.ready[i], ready), remember(b.rates[i], rate)
	}
}

func remember(history []float64, v float64) []float64 {
	history = append(history, v)
	return history[max(0, len(history)-historyLen):]
}

// boardColumns are the numbers' columns; a narrow terminal goes without those of
// higher rank first.
var boardColumns = []struct {
	name string
	rank int
	cell func(processStats) any
}{
	{"process", 0, func(s processStats) any { return s.Process }},
	{"transport", 4, func(s processStats) any { return s.Transport }},
	{"queue", 3, func(s processStats) any { return s.Queue }},
	{"ready", 0, func(s processStats) any { return dash(s.Ready) }},
	{"delayed", 1, func(s processStats) any { return dash(s.Delayed) }},
	{"in_flight", 1, func(s processStats) any { return dash(s.InFlight) }},
	{"dead", 0, func(s processStats) any { return dash(s.Dead) }},
	{"oldest", 2, func(s processStats) any { return shortAge(s.OldestSeconds) }},
	{"lag", 5, func(s processStats) any { return dash(s.Lag) }},
	{"rate/s", 0, func(s processStats) any { return tenths(s.Rate) }},
	{"paused", 3, func(s processStats) any { return dash(s.Paused) }},
}

func shortAge(seconds *float64) any {
	if seconds == nil {
		return "-"
	}
	return time.Duration(*seconds * float64(time.Second)).Round(time.Second)
}

// lines draws the board for a terminal of this size.
func (b *board) lines(width, height int) []string {
	const ranks = 6
	var rows []string
	for rank := ranks; rank > 0; rank-- {
		if rows = b.rows(rank, 0); lineWidth(rows) <= width {
			if spare := (width - lineWidth(rows)) / 2; spare >= 10 {
				rows = b.rows(rank, min(spare-2, historyLen/2))
			}
			break
		}
	}
	lines := append([]string{b.title, ""}, rows...)
	for _, s := range b.last {
		if s.err != nil {
			lines = append(lines, fmt.Sprintf("%s: %s", s.Process, oneLine(masked(s.err), 500)))
		}
	}
	if len(lines) > height {
		lines = lines[min(2, len(lines)-height):] // what it is must go first
		lines = lines[:min(height, len(lines))]
	}
	for i, line := range lines {
		lines[i] = text.Trim(strings.TrimRight(line, " "), width)
	}
	return lines
}

// rows draws the table with the columns below a rank and sparklines of a width,
// 0 = none.
func (b *board) rows(rank, spark int) []string {
	header := table.Row{}
	cells := make([]table.Row, len(b.last))
	for _, column := range boardColumns {
		if column.rank >= rank {
			continue
		}
		header = append(header, column.name)
		for i, s := range b.last {
			cells[i] = append(cells[i], column.cell(s))
		}
	}
	if spark > 0 {
		header = append(header, "ready over time", "rate over time")
		for i := range b.last {
			cells[i] = append(cells[i], sparkline(b.ready[i], spark), sparkline(b.rates[i], spark))
		}
	}
	t := newTable(nil, header...)
	t.AppendRows(cells)
	return strings.Split(t.Render(), "\n")
}

func lineWidth(lines []string) int {
	width := 0
	for _, line := range lines {
		width = max(width, text.StringWidthWithoutEscSequences(strings.TrimRight(line, " ")))
	}
	return width
}
