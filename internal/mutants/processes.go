package main

// processMutants are bugs of the process manager: who is restarted, stopped and
// paused, and who is not.
func processMutants() []mutant {
	const pkg = "./processes"
	return []mutant{
		{
			bug: "a job that kills its replica stops the whole process", file: "processes/replica.go", pkg: pkg, test: "TestOnlyCrashesByItselfCountTowardsTheLimit",
			old: "	case gone && vanished.worked:\n", new: "	case gone && vanished.worked && s.misses < 0:\n",
		},
		{
			bug: "recycling counts as a crash", file: "processes/replica.go", pkg: pkg, test: "TestAReplicaIsRecycledAtItsLimitsWithoutACrash",
			old: "			r.recycled(recycled)\n			row = streak{}\n			continue\n", new: "			r.recycled(recycled)\n			row = streak{}\n",
		},
		{
			bug: "a reload restarts what did not change", file: "processes/steer.go", pkg: pkg, test: "TestAReloadTouchesOnlyWhatChanged",
			old: "		if !s.process.equal(next) {\n", new: "		if s.process != next {\n",
		},
		{
			bug: "a refused reload is half in force", file: "processes/steer.go", pkg: pkg, test: "TestAReloadWithAFaultChangesNothing",
			old: "	made, err := m.newProcesses(setup)\n	if err != nil {\n", new: "	made, err := m.newProcesses(setup)\n	if err != nil && len(made) == 0 {\n",
		},
		{
			bug: "a child outlives its parent", file: "processes/link.go", pkg: pkg, test: "TestAChildWhoseParentIsGoneStopsHardAndGivesItsJobsBack",
			old: "			m.Abort()\n			return\n", new: "			return\n",
		},
		{
			bug: "a child does not say that it is busy", file: "processes/link.go", pkg: pkg, test: "TestAChildThatEndsWhileAJobRunsIsTheJobsMatter",
			old: "		_ = l.reports.send(&report{Busy: true})", new: "		_ = l.reports.send(&report{})",
		},
		{
			bug: "pages of others may steer a host", file: "processes/admin/admin.go", pkg: "./processes/admin", test: "TestPagesOfOthersCannotSteerAHost",
			old: "	inner := protected.Handler(next)\n", new: "	inner := next\n",
		},
		{
			bug: "Redis: a consumer that starts does not see a pause", file: "transport/redis/source.go", pkg: "./transport/redis", test: "TestAPausedQueueIsPausedForEveryConsumerAndThoseThatComeLater",
			old: "	s.lookPaused() // before the first claim\n", new: "",
		},
	}
}
