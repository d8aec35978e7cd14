package core

// Gate makes a suspect run alone in its OS process: every engine of the process
// shares one.
type Gate struct{}

func NewGate() *Gate { return &Gate{} }
