package core

import "errors"

var (
	// ErrStale says that the delivery is no longer ours; its result is dropped.
	ErrStale = errors.New("delivery is no longer ours")
	// ErrDeadLettersFull says that the dead-letter place is at its cap and on_full is
	// stop; the job stays with the broker.
	ErrDeadLettersFull = errors.New("dead-letter list is full (max_len): replay or purge entries, or raise dead_letter.max_len")
	// ErrTooLarge says that the broker refuses a message of this size for good.
	ErrTooLarge = errors.New("message is too large for the broker")
	// ErrTooManyStuck says that max_stuck handlers ignored their cancellation. Goroutines
	// cannot be killed, so the program should be restarted.
	ErrTooManyStuck = errors.New("too many handlers ignore their cancellation (max_stuck): restart the program and make handlers return when their context ends")
	// ErrNotSent says that another job of the same batch cannot be published, so nothing
	// of the batch was sent.
	ErrNotSent = errors.New("not sent: another job of the batch is invalid")
	// ErrClosed says that the publisher, source or driver was closed.
	ErrClosed = errors.New("closed")
)

// SetupError is a fault that no retry can mend: configuration, topology or
// rights. Its text is one sentence that says what to change. The process that
// meets it stops; others go on.
type SetupError struct {
	Sentence string
	Err      error // may be nil
}

func (e *SetupError) Error() string { return e.Sentence }

func (e *SetupError) Unwrap() error { return e.Err }
