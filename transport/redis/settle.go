package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/deadletter"
	"github.com/goconsumer/consumer/internal/fault"
)

// Bounds of one settle call.
const (
	maxSettle      = 500
	maxSettleBytes = 8 << 20
)

// The pauses before a call whose reply was lost is repeated; after the last the
// batch is reported as unsettled, and its fate is asked for before anything else
// is settled.
var repeatAfter = [...]time.Duration{0, 50 * time.Millisecond, 500 * time.Millisecond}

// numberedCall is a settle call until its reply is known. While the reply is
// lost nobody knows whether it was carried out, so it is repeated with the same
// number: the server answers a number that it knows with the reply it gave.
type numberedCall struct {
	args    []any
	unknown bool        // an attempt may have been carried out
	apply   func(reply) // takes the reply, once
}

// reply is what the settle script answered.
type reply struct {
	codes   string
	fault   string
	dropped []string // dead letters that made room
}

// settler carries out the calls one after the other: numbers have an order.
func (s *source) settler() {
	for call := range s.calls {
		call()
	}
}

// enqueue hands a call to the settler, or returns false after Close.
func (s *source) enqueue(call func()) bool {
	s.closing.RLock()
	defer s.closing.RUnlock()
	if s.closed {
		return false
	}
	s.calls <- call
	return true
}

// Settle hands the batch to the settler.
func (s *source) Settle(batch []core.Settlement, done func(i int, err error)) {
	if !s.enqueue(func() { s.settleBatch(batch, done) }) {
		for i := range batch {
			done(i, core.ErrClosed)
		}
	}
}

// item is one settlement with its place in the batch.
type item struct {
	core.Settlement
	index int
	d     *delivery
}

// plain items need nothing but their removal.
func (it *item) plain() bool {
	return it.Verdict == core.VerdictDone && it.d.Found.N == 0
}

func (s *source) settleBatch(batch []core.Settlement, done func(i int, err error)) {
	items := make([]item, 0, len(batch))
	for i, b := range batch {
		items = append(items, item{b, i, b.D.Native.(*delivery)})
	}
	slices.SortFunc(items, byTurn)
	for len(items) > 0 {
		n, bytes := 0, 0
		for n < len(items) && n < maxSettle && (n == 0 || bytes < maxSettleBytes) {
			bytes += len(items[n].d.Body) + len(items[n].Next)
			n++
		}
		s.settleChunk(items[:n], done)
		items = items[n:]
	}
}

// byTurn puts plain items first and in the order of the processing list, so that
// they can go with one trim, and releases last and newest first, so that the
// oldest ends up next to run.
func byTurn(a, b item) int {
	turn := func(it *item) int {
		switch {
		case it.plain():
			return 0
		case it.Verdict == core.VerdictRelease:
			return 2
		}
		return 1
	}
	if c := cmp.Compare(turn(&a), turn(&b)); c != 0 {
		return c
	}
	if a.Verdict == core.VerdictRelease {
		a, b = b, a
	}
	return cmp.Compare(a.d.order, b.d.order)
}

// settleChunk settles items in one call and reports each once.
func (s *source) settleChunk(items []item, done func(i int, err error)) {
	c := s.ownerOf(items)
	if c == nil {
		for _, it := range items {
			done(it.index, core.ErrStale)
		}
		return
	}
	// The fate of an earlier batch comes first: it may be the same jobs' fate.
	err := s.resolve(c)
	if err == nil {
		items = slices.DeleteFunc(items, func(it item) bool {
			decided, err := it.d.outcome()
			if decided {
				done(it.index, err)
			}
			return decided
		})
		if len(items) == 0 {
			return
		}
		var args []any
		if args, err = s.settleArgs(c, items); err == nil {
			reported := false
			err = s.call(c, fault.RedisSettleAsked, args, func(r reply) {
				s.overflow(r.dropped)
				for i, it := range items {
					if err := s.settledAs(it.d, r.codes[i], r.fault); !reported {
						done(it.index, err)
					}
				}
			})
			if err == nil {
				return
			}
			reported = true
		}
	}
	if c.gone() {
		err = core.ErrStale
	}
	for _, it := range items {
		done(it.index, err)
	}
}

// ownerOf is the one live identity that holds all of items, or nil. Items of a
// lost identity are never in a batch with others that matter: Receive takes no
// new identity's jobs before the engine knows that the old one's are lost.
func (s *source) ownerOf(items []item) *consumer {
	for _, it := range items {
		if !it.d.owner.gone() {
			return it.d.owner
		}
	}
	return nil
}

// outcome is the fate of a delivery that was decided by an earlier call.
func (d *delivery) outcome() (decided bool, err error) {
	switch d.fate {
	case settled:
		return true, nil
	case stale:
		return true, core.ErrStale
	}
	return d.owner.gone(), core.ErrStale
}

// settleArgs writes the script's arguments for items, plain ones first.
func (s *source) settleArgs(c *consumer, items []item) ([]any, error) {
	plain := 0
	for plain < len(items) && items[plain].plain() {
		plain++
	}
	args := make([]any, 0, 6+plain+4*(len(items)-plain))
	args = append(args, c.id, nil, plain, s.binding.DeadLetters.MaxLen, drops(s.binding.DeadLetters.OnFull), s.keys.unit)
	for _, it := range items[:plain] {
		args = append(args, it.d.value)
	}
	for _, it := range items[plain:] {
		op, next, how, err := s.keys.operation(&it)
		if err != nil {
			return nil, err
		}
		args = append(args, op, it.d.value, next, how)
	}
	return args, nil
}

// operation is a settlement in the script's words. A job that was found
// unsettled loses that mark when it has come to an outcome, and keeps it when it
// is given back.
func (k *keys) operation(it *item) (op string, next any, how int64, err error) {
	mark := ""
	if it.d.Found.N > 0 {
		mark = "+"
	}
	switch it.Verdict {
	case core.VerdictDone:
		return "d" + mark, "", 0, nil
	case core.VerdictRetry, core.VerdictDefer:
		body := it.Next
		if body == nil {
			body = []byte(it.d.value.(string))
		}
		body = k.stored(body, it.d.list)
		if it.Delay <= 0 {
			return "r" + mark, body, int64(k.placeOf(body)), nil
		}
		return "w" + mark, body, micros(it.Delay), nil
	case core.VerdictDead:
		if it.Dead == nil {
			return "", nil, 0, errors.New("a dead settlement without its record")
		}
		raw := int64(0)
		if it.Dead.Job == nil {
			raw = 1
		}
		return "x" + mark, deadletter.Append(nil, k.ofList(it.Dead, it.d.list)), raw, nil
	case core.VerdictRelease:
		next = it.d.taken // also in the place of a charged body that Isolate stored and did not know of
		if it.Next != nil {
			next = it.Next
		}
		list := it.d.list
		if list == 0 {
			list = k.placeOf(it.d.Body)
		}
		if next == it.d.value {
			return "b", next, int64(list), nil
		}
		if mark != "" {
			mark = ">"
		}
		return "b" + mark, next, int64(list), nil
	}
	return "", nil, 0, fmt.Errorf("unknown verdict %d", it.Verdict)
}

// micros rounds a delay up: it is never cut short.
func micros(d time.Duration) int64 {
	return int64(d/time.Microsecond) + int64(min(d%time.Microsecond, 1))
}

func drops(on core.OnFull) int {
	if on == core.OnFullDropOldest {
		return 1
	}
	return 0
}

// settledAs books what the server said about one delivery.
func (s *source) settledAs(d *delivery, code byte, refusal string) error {
	switch code {
	case '1':
		d.fate = settled
		d.owner.forget(d.value)
		return nil
	case '0':
		d.fate = stale
		d.owner.forget(d.value)
		return core.ErrStale
	case 'F':
		return core.ErrDeadLettersFull
	}
	return fmt.Errorf("settle a job of %s: redis at %s answered: %s", s.binding.Queue, s.driver.template.Addr, refusal)
}

// overflow reports dead letters that were dropped to make room.
func (s *source) overflow(dropped []string) {
	if len(dropped) > 0 {
		s.notices.Event(&core.Event{Kind: core.EventDeadOverflow, N: len(dropped), IDs: deadIDs(dropped)})
	}
}

// call sends a new numbered call; args[1] is left for the number. It returns nil
// after apply has run, and an error when the call was refused (nothing changed)
// or its fate is not known yet: then the next call finds out first.
func (s *source) call(c *consumer, asked fault.Point, args []any, apply func(reply)) error {
	c.number++
	args[1] = c.number
	c.pending = &numberedCall{args: args, apply: apply}
	if err := fault.At(asked); err != nil {
		c.pending = nil
		return s.driver.failure("settle", err)
	}
	return s.resolve(c)
}

// resolve sends the pending call, if there is one, until its fate is known or
// the pauses are used up.
func (s *source) resolve(c *consumer) error {
	p := c.pending
	if p == nil {
		return nil
	}
	var err error
	for _, pause := range repeatAfter {
		if pause > 0 {
			select {
			case <-time.After(pause):
			case <-s.life.Done():
			}
		}
		var r reply
		r, err = s.send(c, p)
		switch {
		case err == nil:
			c.pending = nil
			p.apply(r)
			return nil
		case errors.Is(err, core.ErrStale):
			c.pending = nil
			s.lose(c)
			return err
		case isReply(err):
			if !p.unknown {
				c.pending = nil
			}
			return s.driver.failure("settle jobs of "+s.binding.Queue, err)
		}
		p.unknown = true
	}
	return s.driver.failure("settle jobs of "+s.binding.Queue, err)
}

// send makes the call once.
func (s *source) send(c *consumer, p *numberedCall) (reply, error) {
	keys := append([]string{
		s.keys.consumers, c.processing, c.sequence, s.keys.found, s.keys.delay, s.keys.bell, s.keys.dead, s.keys.deadRaw,
	}, s.keys.lists...)
	result, err := s.driver.scripts.settle.Run(context.WithoutCancel(s.life), s.driver.client, keys, p.args...).Result()
	if err == nil {
		err = fault.At(fault.RedisSettled)
	}
	if err != nil {
		return reply{}, err
	}
	list, ok := result.([]any)
	if !ok {
		return reply{}, core.ErrStale
	}
	return readReply(list), nil
}

func readReply(list []any) reply {
	r := reply{}
	r.codes, _ = list[0].(string)
	r.fault, _ = list[1].(string)
	for _, d := range list[2:] {
		text, _ := d.(string)
		r.dropped = append(r.dropped, text)
	}
	return r
}

// Isolate puts charged into the place of d's body, in one step.
func (s *source) Isolate(ctx context.Context, d *core.Delivery, charged []byte) (*core.Delivery, error) {
	type result struct {
		d   *core.Delivery
		err error
	}
	results := make(chan result, 1)
	call := func() {
		next, err := s.isolate(d.Native.(*delivery), charged)
		results <- result{next, err}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if !s.enqueue(call) {
		return nil, core.ErrClosed
	}
	// The settler's tries are bounded, and an answer that nobody reads would be
	// a charge that nobody knows of.
	r := <-results
	return r.d, r.err
}

// isolate runs on the settler. When the fate of the exchange is not known yet,
// an error is right: the next call finds out, and books the body that is there.
func (s *source) isolate(d *delivery, charged []byte) (*core.Delivery, error) {
	if err := s.resolve(d.owner); err != nil {
		return nil, err
	}
	if decided, err := d.outcome(); decided {
		return nil, err
	}
	op := "i"
	if d.Found.N > 0 {
		op = "i>"
	}
	old, next := d.value, any(string(charged))
	args := []any{d.owner.id, nil, 0, 0, 0, s.keys.unit, op, old, next, 0}
	d.owner.hold(next)
	var answer error
	err := s.call(d.owner, fault.RedisIsolateAsked, args, func(r reply) {
		answer = nil
		switch r.codes[0] {
		case '1':
			d.value = next
			d.owner.forget(old)
		default:
			answer = s.settledAs(d, r.codes[0], r.fault)
			d.owner.forget(next)
		}
	})
	if err == nil {
		err = fault.At(fault.RedisIsolated)
	}
	switch {
	case d.owner.gone():
		return nil, core.ErrStale
	case err != nil:
		if d.owner.pending == nil && d.value == old {
			d.owner.forget(next) // refused: nothing changed
		}
		return nil, err
	case answer != nil:
		return nil, answer
	}
	// A delivery of its own: the engine keeps the old one's body for the refund.
	run := &delivery{Delivery: d.Delivery, owner: d.owner, value: d.value, taken: d.value, order: d.order, list: d.list}
	run.Body, run.Native = charged, run
	return &run.Delivery, nil
}
