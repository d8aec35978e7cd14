package main

// engineMutants are bugs of the engine: what is settled, when, and beside what.
func engineMutants() []mutant {
	const pkg = "./core"
	return []mutant{
		{
			bug: "ack before the handler", file: "core/worker.go", pkg: pkg, test: "TestAStopThatRunsOutOfTimeCancelsAndReleases",
			old: "	w.begin(t)\n	exited := true\n",
			new: "	w.e.source.Settle([]Settlement{{D: t.d, Verdict: VerdictDone}}, func(int, error) {})\n	w.begin(t)\n	exited := true\n",
		},
		{
			bug: "settle error swallowed", file: "core/settle.go", pkg: pkg, test: "TestAFailedSettlementIsRepeatedAndTheHandlerIsNot",
			old: "			failed = err\n			s.again(t, err)\n		}\n	}\n	s.e.leave(gone)",
			new: "			gone = append(gone, t)\n		}\n	}\n	s.e.leave(gone)",
		},
		{
			bug: "a failed settlement runs the handler again", file: "core/settle.go", pkg: pkg, test: "TestAFailedSettlementIsRepeatedAndTheHandlerIsNot",
			old: "			return\n		}\n		s.add(t)\n	})",
			new: "			return\n		}\n		s.e.undecided.Add(1)\n		s.e.queue.push(t)\n	})",
		},
		{
			bug: "dead letter written after the ack", file: "core/settle.go", pkg: pkg, test: "TestADeadLetterIsInItsSinkBeforeTheOriginalGoes",
			old: "	errs := s.e.cfg.DeadSink.Store(ctx, records)\n",
			new: "	for _, t := range batch {\n		s.e.source.Settle([]Settlement{{D: t.d, Verdict: VerdictDone}}, func(int, error) {})\n	}\n	errs := s.e.cfg.DeadSink.Store(ctx, records)\n",
		},
		{
			bug: "a dead letter that the sink refused is dropped", file: "core/settle.go", pkg: pkg, test: "TestADeadLetterIsInItsSinkBeforeTheOriginalGoes",
			old: "			failed = errs[i]\n			s.again(t, errs[i])\n			continue\n",
			new: "			failed = errs[i]\n",
		},
		{
			bug: "attempt charged on release", file: "core/settle.go", pkg: pkg, test: "TestASoftStopLetsHandlersFinishAndGivesTheRestBack",
			old: "		if !t.d.Charged { // else",
			new: "		t.job.Attempt++\n		t.refund = t.job.Append(nil)\n		if !t.d.Charged { // else",
		},
		{
			bug: "a stop cancels handlers at once", file: "core/engine.go", pkg: pkg, test: "TestASoftStopLetsHandlersFinishAndGivesTheRestBack",
			old: "	if !e.waitDecided(e.cfg.ShutdownTimeout, 0) {\n",
			new: "	if e.hardCancel(ErrStopping); !e.waitDecided(e.cfg.ShutdownTimeout, 0) {\n",
		},
		{
			bug: "what a stop left unsettled is not named", file: "core/engine.go", pkg: pkg, test: "TestAStopWithoutTheBrokerNamesWhatIsUnsettled",
			old: "	case err != nil && len(e.tasks) > 0:\n",
			new: "	case err != nil && len(e.tasks) > 1<<30:\n",
		},
		{
			bug: "gate ignored: a suspect does not run alone", file: "core/suspect.go", pkg: pkg, test: "TestASuspectRunsAloneInItsOSProcess",
			old: "	if !waitFor(ctx, alone) || t.isLost() {\n",
			new: "	if t.isLost() {\n",
		},
		{
			bug: "others go on fetching beside a suspect", file: "core/gate.go", pkg: pkg, test: "TestASuspectRunsAloneInItsOSProcess",
			old: "	g.closed = true\n", new: "",
		},
		{
			bug: "found counts ignored", file: "core/suspect.go", pkg: pkg, test: "TestAKillerIsStoppedWithOneAndWithTwoReplicas/replicas_1/republishing",
			old: "return t.refund != nil || t.d.Found.N >= suspectAfter ||",
			new: "return t.refund != nil || t.d.Found.N >= 1<<30 ||",
		},
		{
			bug: "the first time found makes a suspect", file: "core/suspect.go", pkg: pkg, test: "TestWhatWasFoundOnceRunsSideBySide",
			old: "const suspectAfter = 2", new: "const suspectAfter = 1",
		},
		{
			bug: "a suspect is not charged", file: "core/suspect.go", pkg: pkg, test: "TestAKillerIsStoppedWithOneAndWithTwoReplicas/replicas_1/republishing",
			old: `	charged.Meta.setCount("crashes", t.job.Meta.Crashes()+1)`,
			new: `	charged.Meta.setCount("crashes", t.job.Meta.Crashes())`,
		},
		{
			bug: "a charge is kept when the suspect ends well", file: "core/suspect.go", pkg: pkg, test: "TestASuspectThatIsReleasedAtAStopIsNotCharged",
			old: "		t.refund = t.d.Body\n", new: "		t.refund = d.Body\n",
		},
		{
			bug: "a charged copy is charged again at each delivery", file: "core/fetch.go", pkg: pkg, test: "TestASuspectThatEndsWellIsNotCharged/retry/lanes",
			old: "	if d.Charged && d.Found.N == 0 ||", new: "	if",
		},
		{
			bug: "a cut connection is a crash", file: "core/suspect.go", pkg: pkg, test: "TestCutConnectionsWhileASuspectRunsCondemnNobody/upper_bound",
			old: "	if t.refund != nil && t.isLost() {\n", new: "	if false {\n",
		},
		{
			bug: "the handler of a lost delivery is not cancelled", file: "core/loss.go", pkg: pkg, test: "TestAResultForALostDeliveryIsDroppedAndCounted",
			old: "		l.cancel(ErrLost)\n", new: "		_ = l.cancel\n",
		},
		{
			bug: "one job in two of an order lane is dropped", file: "core/lane.go", pkg: "./core/drivertest", test: "TestTheBrokerInMemoryKeepsTheContractInEveryShape/lanes/jobs_of_one_key_run_one_after_the_other_and_in_order",
			old: "		next = l.waiting[0] // before Delete moves the others down\n		l.waiting = slices.Delete(l.waiting, 0, 1)\n",
			new: "		l.waiting = slices.Delete(l.waiting, 0, 1)\n		next = l.waiting[:1][0]\n",
		},
		{
			bug: "order within a key ignored", file: "core/lane.go", pkg: "./core/drivertest", test: "TestTheBrokerInMemoryKeepsTheContractInEveryShape/lanes/jobs_of_one_key_run_one_after_the_other_and_in_order",
			old: "	l.waiting = append(l.waiting, t)\n	return false\n", new: "	return true\n",
		},
		{
			bug: "a full engine goes on fetching", file: "core/fetch.go", pkg: "./core/drivertest", test: "TestTheBrokerInMemoryKeepsTheContractInEveryShape/republishing/a_busy_worker_holds_no_more_than_its_slots_and_prefetch",
			old: "	return min(window-e.onHand, max(", new: "	return min(window, max(",
		},
		{
			bug: "paused engines fetch", file: "core/fetch.go", pkg: pkg, test: "TestAPausedEngineHoldsNothingAndIsReady",
			old: "		halted := closed || e.pausedLocked()\n", new: "		halted := closed\n",
		},
	}
}

// runnerMutants are bugs of how a handler is run and what its result means.
func runnerMutants() []mutant {
	const pkg = "./core"
	return []mutant{
		{
			bug: "timeout not enforced", file: "core/worker.go", pkg: pkg, test: "TestB43_AStuckHandlerKeepsNeitherItsJobNorItsSlot",
			old: "		t.expireLocked(t.started.Add(t.limit))\n", new: "",
		},
		{
			bug: "a stuck handler keeps its slot", file: "core/worker.go", pkg: pkg, test: "TestB43_AStuckHandlerKeepsNeitherItsJobNorItsSlot",
			old: "	} else {\n		e.startWorker()\n	}\n	w.leave()\n", new: "	}\n	w.leave()\n",
		},
		{
			bug: "max_stuck ignored", file: "core/worker.go", pkg: pkg, test: "TestB43_TooManyStuckHandlersEndTheEngine/republishing",
			old: "	if int(stuck) >= e.maxStuck {", new: "	if int(stuck) >= 1<<30 {",
		},
		{
			bug: "a worker that Goexit ended keeps its slot", file: "core/worker.go", pkg: pkg, test: "TestB44_APanicOfAnySortCostsOneAttemptAndNothingElse",
			old: "		defer w.leave() // also after runtime.Goexit\n		w.loop()\n", new: "		w.loop()\n		w.leave()\n",
		},
		{
			bug: "a listener's panic reaches the job", file: "core/emit.go", pkg: pkg, test: "TestB44_APanicInAHookChangesNoOutcome",
			old: "		if v := recover(); v != nil {\n", new: "		if v := any(nil); v != nil {\n",
		},
		{
			bug: "an attempt more than allowed", file: "core/decision.go", pkg: "./core/drivertest", test: "TestTheBrokerInMemoryKeepsTheContractInEveryShape/republishing/a_job_that_always_fails_runs_no_more_often_than_it_may",
			old: "	if job.Attempt >= retry.Attempts(job) {", new: "	if job.Attempt > retry.Attempts(job) {",
		},
		{
			bug: "a deferral costs an attempt", file: "core/decision.go", pkg: "./core/drivertest", test: "TestTheBrokerInMemoryKeepsTheContractInEveryShape/republishing/outcome:_a_deferred_job_keeps_its_attempt",
			old: `	next.Meta.setCount("deferred", n)`, new: "	next.Attempt++\n" + `	next.Meta.setCount("deferred", n)`,
		},
		{
			bug: "deferrals without end", file: "core/decision.go", pkg: pkg, test: "TestB38_UnregisteredRetryIsABoundedBackoff/republishing",
			old: "	if p.RetryUnregistered && job.Meta.Deferred() < p.MaxDefers {", new: "	if p.RetryUnregistered {",
		},
		{
			bug: "deadline ignored", file: "core/decision.go", pkg: "./core/drivertest", test: "TestTheBrokerInMemoryKeepsTheContractInEveryShape/republishing/outcome:_a_passed_deadline_discards_the_job_unrun",
			old: "set && now.After(deadline)", new: "set && now.Before(deadline)",
		},
		{
			bug: "max_crashes ignored", file: "core/decision.go", pkg: pkg, test: "TestAKillerIsStoppedWithOneAndWithTwoReplicas/replicas_1/republishing",
			old: "	if job.Meta.Crashes() > p.MaxCrashes {", new: "	if job.Meta.Crashes() > 1<<20 {",
		},
		{
			bug: "jitter subtracts", file: "core/retry.go", pkg: pkg, test: "TestB41_DelaysSaturateInsteadOfOverflowing|TestDelayFollowsItsShape",
			old: "		delay += delay * p.Jitter", new: "		delay -= delay * p.Jitter",
		},
		{
			bug: "the delay is not capped", file: "core/retry.go", pkg: pkg, test: "TestB41_DelaysSaturateInsteadOfOverflowing",
			old: "	delay = min(delay, float64(p.MaxDelay))\n", new: "",
		},
	}
}
