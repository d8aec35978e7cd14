// Command mutants plants known bugs, one after the other, and checks that the
// test named beside each finds it:
//
//	go run ./internal/mutants [-run REGEXP] [-parallel N]
//
// A bug is a small edit of one source file. It is compiled in by the go
// command's -overlay, so the working tree is never touched. The program fails
// when a bug survives, when its edit no longer fits the source, when the result
// does not compile, or when the named test does not pass without it. Those of
// the Redis transport need a redis-server of version 7 or later in PATH.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// mutant is one planted bug.
type mutant struct {
	bug  string // what is wrong with it, in a few words
	file string // from the module's root
	old  string // stands exactly once in file
	new  string
	pkg  string // where the test that must fail is
	test string // its name, or a pattern as go test -run takes it
}

func main() {
	pattern := flag.String("run", "", "only bugs whose text matches this regular expression")
	parallel := flag.Int("parallel", 2, "how many to try at once")
	flag.Parse()
	chosen, err := regexp.Compile(*pattern)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants: -run:", err)
		os.Exit(2)
	}
	all := slices.Concat(engineMutants(), runnerMutants(), envelopeMutants(), memoryMutants(), redisMutants(), processMutants())
	all = slices.DeleteFunc(all, func(m mutant) bool { return !chosen.MatchString(m.bug) })
	if err := run(all, *parallel); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// run tries every mutant and prints a line for each.
func run(all []mutant, parallel int) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()

	fmt.Printf("%d planted bugs; first their tests without them\n", len(all))
	if err := passWithoutBugs(root, dir, all); err != nil {
		return err
	}
	lab := &lab{root: root, dir: dir}
	slots := make(chan struct{}, parallel)
	var wg sync.WaitGroup
	for i, m := range all {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			lab.try(i, m)
		})
	}
	wg.Wait()
	if len(lab.bad) > 0 {
		return fmt.Errorf("%d of %d planted bugs were not caught: %s", len(lab.bad), len(all), strings.Join(lab.bad, "; "))
	}
	fmt.Printf("all %d planted bugs were caught\n", len(all))
	return nil
}

func moduleRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

// passWithoutBugs runs the tests of all mutants and makes sure that each pattern
// names a test. Each package is built once.
func passWithoutBugs(root, dir string, all []mutant) error {
	built := map[string]string{}
	tried := map[string]bool{}
	for _, m := range all {
		if tried[m.pkg+" "+m.test] {
			continue
		}
		tried[m.pkg+" "+m.test] = true
		binary := built[m.pkg]
		if binary == "" {
			binary = filepath.Join(dir, fmt.Sprintf("%d.test", len(built)))
			if out, err := command(root, "go", "test", "-c", "-vet=off", "-o", binary, m.pkg); err != nil {
				return fmt.Errorf("build the tests of %s:\n%s", m.pkg, out)
			}
			built[m.pkg] = binary
		}
		out, err := command(filepath.Join(root, m.pkg), binary, "-test.v", "-test.timeout=120s", "-test.run="+anchored(m.test))
		if err != nil {
			return fmt.Errorf("%s of %s fails without any bug:\n%s", m.test, m.pkg, out)
		}
		if !strings.HasPrefix(out, "=== RUN") {
			return fmt.Errorf("%s names no test of %s", m.test, m.pkg)
		}
	}
	return nil
}

// command runs a program in a directory and returns all that it printed.
func command(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// anchored makes each element of a test's path match as a whole.
func anchored(pattern string) string {
	parts := strings.Split(pattern, "/")
	for i, p := range parts {
		parts[i] = "^(" + p + ")$"
	}
	return strings.Join(parts, "/")
}

// lab tries mutants and keeps the verdicts.
type lab struct {
	root, dir string

	mu  sync.Mutex
	bad []string // bugs that were not caught
}

func (l *lab) try(i int, m mutant) {
	start := time.Now()
	verdict := l.verdict(i, m)
	l.mu.Lock()
	defer l.mu.Unlock()
	if verdict == "" {
		fmt.Printf("caught    %5.1fs  %s  (%s)\n", time.Since(start).Seconds(), m.bug, m.test)
		return
	}
	fmt.Printf("NOT       %5.1fs  %s: %s\n", time.Since(start).Seconds(), m.bug, verdict)
	l.bad = append(l.bad, m.bug)
}

// verdict is "" for a bug that was caught, else what is wrong.
func (l *lab) verdict(i int, m mutant) string {
	overlay, err := l.plant(i, m)
	if err != nil {
		return err.Error()
	}
	// A bug that makes the test hang is caught too.
	out, err := command(l.root, "go", "test", "-vet=off", "-timeout=60s", "-overlay="+overlay, "-run="+anchored(m.test), m.pkg)
	switch {
	case err == nil:
		return m.test + " passes with it"
	case strings.Contains(out, "[build failed]") || strings.Contains(out, "[setup failed]"):
		return "it does not compile:\n" + out
	}
	return ""
}
