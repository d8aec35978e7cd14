package redis

// keys are the names of one queue's keys; doc.go says what each holds.
type keys struct {
	ready     string
	delay     string
	dead      string
	members   string
	consumers string
	gone      string
	found     string
	bell      string
	// The two of one consumer: prefix + its id.
	processing string
	sequence   string
}

func newKeys(queue string, o Options) keys {
	name := func(part string) string { return o.Prefix + ":" + part + ":{" + queue + "}" }
	return keys{
		ready:      name("ready"),
		delay:      name("delay"),
		dead:       o.DeadPrefix + "{" + queue + "}",
		members:    name("members"),
		consumers:  name("consumers"),
		gone:       name("gone"),
		found:      name("found"),
		bell:       name("bell"),
		processing: name("processing") + ":",
		sequence:   name("seq") + ":",
	}
}
