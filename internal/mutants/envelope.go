package main

// envelopeMutants are bugs of reading and writing envelopes.
func envelopeMutants() []mutant {
	const pkg = "./core"
	return []mutant{
		{
			bug: "duplicate key: the first wins", file: "core/envelope.go", pkg: pkg, test: "TestDecodeSaysWhyABodyIsNoEnvelope",
			old: "		case \"jobType\":\n", new: "		case \"jobType\":\n			if !f.typ.absent() {\n				continue\n			}\n",
		},
		{
			bug: "a scalar payload passes", file: "core/envelope.go", pkg: pkg, test: "TestDecodeSaysWhyABodyIsNoEnvelope",
			old: "	case payload[0] != '{' && payload[0] != '[':\n", new: "	case payload[0] == 0:\n",
		},
		{
			bug: "unknown fields are lost", file: "core/envelope.go", pkg: pkg, test: "TestB40_NothingOfAJobIsLostAtAnyHop/republishing",
			old: "			f.extra = append(f.extra, m)\n", new: "",
		},
	}
}

// memoryMutants are bugs of the broker in memory; the conformance kit or its own
// tests must see them.
func memoryMutants() []mutant {
	const pkg = "./core/drivertest"
	return []mutant{
		{
			bug: "commit past a gap", file: "core/drivertest/memory_lane.go", pkg: pkg, test: "TestTheBrokerInMemoryKeepsTheContractInEveryShape/lanes/a_finished_job_above_a_gap_is_not_repeated_and_the_gap_is_not_skipped",
			old: "	l.finished[msg.offset] = true\n",
			new: "	l.finished[msg.offset] = true\n	l.committed = max(l.committed, msg.offset)\n",
		},
		{
			bug: "finished jobs above a gap are repeated", file: "core/drivertest/memory_lane.go", pkg: pkg, test: "TestTheBrokerInMemoryKeepsTheContractInEveryShape/lanes/a_finished_job_above_a_gap_is_not_repeated_and_the_gap_is_not_skipped",
			old: "msg != nil && !l.finished[offset] {", new: "msg != nil {",
		},
		{
			bug: "stale settlement accepted", file: "core/drivertest/memory_settle.go", pkg: pkg, test: "TestStaleResultsChangeNothing",
			old: "	if c.msg.claim != c {\n		return nil, core.ErrStale\n	}\n	defer s.q.touch()",
			new: "	defer s.q.touch()",
		},
		{
			bug: "lost reply applied twice", file: "core/drivertest/memory_settle.go", pkg: pkg, test: "TestALostReplyIsNotAppliedTwice",
			old: "		return nil, nil // it was carried out, only the reply did not get through\n",
			new: "		_ = c.settled\n",
		},
		{
			bug: "retry acked before it is stored", file: "core/drivertest/memory_settle.go", pkg: pkg, test: "TestTheBrokerInMemoryKeepsTheContractInEveryShape/republishing/what_was_reported_as_settled_outlives_a_crash",
			old: "	s.q.add(&message{body: bytes.Clone(item.Next), headers: msg.headers, key: msg.key, priority: msg.priority}, item.Delay)\n",
			new: "	time.AfterFunc(time.Millisecond, func() {\n		s.m.mu.Lock()\n		defer s.m.mu.Unlock()\n		if !s.d.gone {\n			s.q.add(&message{body: bytes.Clone(item.Next), headers: msg.headers, key: msg.key, priority: msg.priority}, item.Delay)\n		}\n	})\n",
		},
		{
			bug: "found counts not raised", file: "core/drivertest/memory_queue.go", pkg: pkg, test: "TestTheBrokerInMemoryKeepsTheContractInEveryShape/republishing/a_vanished_worker_raises_the_count_of_what_it_held_and_of_nothing_else",
			old: "			c.msg.found++\n", new: "",
		},
		{
			bug: "a release costs an attempt in place", file: "core/drivertest/memory_settle.go", pkg: pkg, test: "TestTheBrokerInMemoryKeepsTheContractInEveryShape/in_place/a_released_message_comes_back_first",
			old: "		c.settled = true\n		s.q.release(c)\n", new: "		c.settled = true\n		c.msg.attempt++\n		s.q.release(c)\n",
		},
		{
			bug: "delays end early", file: "core/drivertest/memory_queue.go", pkg: pkg, test: "TestTheBrokerInMemoryKeepsTheContractInEveryShape/republishing/a_delayed_retry_is_never_early_and_late_by_no_more_than_stated",
			old: "	msg.due = time.Now().Add(delay)\n", new: "	msg.due = time.Now().Add(delay - delay/50)\n",
		},
	}
}
