package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"regexp"
	"runtime/pprof"
	"syscall"
)

// options are the command line.
type options struct {
	reps     int
	rows     string
	who      string
	scale    float64
	out      string
	from     string
	markdown bool
	profiles string

	child   string // of a child process only
	addr    string
	profile string
}

func main() {
	log.SetFlags(0)
	var o options
	flag.IntVar(&o.reps, "reps", 5, "repetitions; contenders take turns within each")
	flag.StringVar(&o.rows, "rows", "", "only rows whose name matches this regular expression")
	flag.StringVar(&o.who, "who", "", "only contenders whose name matches this regular expression; ratios need the limit")
	flag.Float64Var(&o.scale, "scale", 1, "factor on all sizes")
	flag.StringVar(&o.out, "out", "", "write the machine, every sample and the targets to this JSON file")
	flag.StringVar(&o.from, "from", "", "measure nothing, print the tables of this JSON file")
	flag.BoolVar(&o.markdown, "markdown", false, "print the tables as Markdown")
	flag.StringVar(&o.profiles, "profiles", "", "write a CPU profile of each trial into this directory")
	flag.StringVar(&o.child, "child", "", "internal: the trial to run, as JSON")
	flag.StringVar(&o.addr, "addr", "", "internal: the child's broker")
	flag.StringVar(&o.profile, "profile", "", "internal: the child's CPU profile")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		log.Fatal("bench: ", err)
	}
}

func run(ctx context.Context, o options) error {
	switch {
	case o.child != "":
		return runChild(ctx, o)
	case o.from != "":
		r, err := readReport(o.from)
		if err != nil {
			return err
		}
		r.print(os.Stdout, o.markdown)
		return nil
	}
	return measure(ctx, o)
}

// measure runs the plan on a server of its own.
func measure(ctx context.Context, o options) (err error) {
	match, err := regexp.Compile(o.rows)
	if err != nil {
		return fmt.Errorf("-rows: %w", err)
	}
	who, err := regexp.Compile(o.who)
	if err != nil {
		return fmt.Errorf("-who: %w", err)
	}
	rows := scaled(selected(plan(), match, who), o.scale)
	if len(rows) == 0 {
		return errors.New("-rows and -who: nothing matches both")
	}
	srv, err := startServer(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, srv.stop()) }()
	b := &bench{addr: srv.addr, rdb: dial(srv.addr), progress: os.Stderr, profiles: o.profiles}
	defer b.rdb.Close()

	r := &report{Options: reportOptions{o.reps, o.scale, o.rows, o.who}}
	if r.Machine, err = describeMachine(ctx, b.rdb); err != nil {
		return err
	}
	if r.Samples, err = b.run(ctx, rows, o.reps); err != nil {
		return err
	}
	r.Machine.LoadAtEnd = loadAverage()
	r.print(os.Stdout, o.markdown)
	if o.out != "" {
		return r.write(o.out)
	}
	return nil
}

func runChild(ctx context.Context, o options) error {
	var t trial
	if err := json.Unmarshal([]byte(o.child), &t); err != nil {
		return err
	}
	if o.profile != "" {
		file, err := os.Create(o.profile)
		if err != nil {
			return err
		}
		defer file.Close()
		if err := pprof.StartCPUProfile(file); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	v, err := runTrial(ctx, o.addr, t)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(v)
}
