package main

// redisMutants are bugs of the Redis transport, most of them in its scripts.
func redisMutants() []mutant {
	const pkg = "./transport/redis"
	return []mutant{
		{
			bug: "LREM by value takes every twin", file: "transport/redis/lua/settle.lua", pkg: pkg, test: "TestSettleCountsTwinsAndNeverConfusesThem",
			old: "	codes[#codes + 1] = redis.call('LREM', processing, -1, ARGV[first + i - 1]) == 1 and '1' or '0'\n",
			new: "	codes[#codes + 1] = redis.call('LREM', processing, 0, ARGV[first + i - 1]) >= 1 and '1' or '0'\n",
		},
		{
			bug: "Redis: lost reply applied twice", file: "transport/redis/lua/settle.lua", pkg: pkg, test: "TestSettleIsNotAppliedTwiceWhenItsReplyIsLost",
			old: "	if tonumber(n) >= number then\n", new: "	if tonumber(n) > number then\n",
		},
		{
			bug: "Redis: retry acked though it could not be stored", file: "transport/redis/lua/settle.lua", pkg: pkg, test: "TestSettleKeepsAJobWhoseOutcomeCannotBeStored",
			old: "		redis.call('RPUSH', processing, body)\n		fault = err or fault\n		return code\n",
			new: "		fault = err or fault\n		return code\n",
		},
		{
			bug: "Redis: a lost consumer still settles", file: "transport/redis/lua/settle.lua", pkg: pkg, test: "TestB34_ALiveConsumerIsNotTakenForDead|TestSettleOfAJobThatIsNotOursChangesNothing",
			old: "	return 'LOST'\n", new: "	redis.call('EXISTS', consumers)\n",
		},
		{
			bug: "Redis: found counts not raised", file: "transport/redis/lua/recover.lua", pkg: pkg, test: "TestRecoveryGivesJobsBackInOrderAndCountsThem",
			old: "			try('HINCRBY', found, redis.sha1hex(job), 1)\n", new: "			try('HINCRBY', found, redis.sha1hex(job), 0)\n",
		},
		{
			bug: "Redis: leases are not renewed", file: "transport/redis/lua/renew.lua", pkg: pkg, test: "TestConformance/a_long_job_of_a_live_worker_is_not_taken_away",
			old: "local changed, err = try('ZADD', KEYS[1], 'XX', 'CH', math.floor(now / 1000) + ARGV[2], ARGV[1])\n",
			new: "local changed, err = 1, nil\n",
		},
		{
			bug: "Redis: recovered jobs go to the end", file: "transport/redis/lua/recover.lua", pkg: pkg, test: "TestRecoveryGivesJobsBackInOrderAndCountsThem",
			old: "redis.call('RPUSH', ready, unpack(part))", new: "redis.call('LPUSH', ready, unpack(part))",
		},
		{
			bug: "Redis: delayed jobs are promoted early", file: "transport/redis/lua/promote.lua", pkg: pkg, test: "TestDelayedJobsRunInTheOrderOfTheirDueTimesAndNeverEarly",
			old: "redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', present, 'LIMIT', 0, want)", new: "redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', present + 200, 'LIMIT', 0, want)",
		},
		{
			bug: "Redis: promotion leaves the job in the delay set", file: "transport/redis/lua/promote.lua", pkg: pkg, test: "TestB31_TwoPromotersMoveEachDueJobOnce",
			old: "redis.call('ZREMRANGEBYRANK', KEYS[1], 0, #due - 1)\n", new: "redis.call('ZREMRANGEBYRANK', KEYS[1], 1, #due - 1)\n",
		},
		{
			bug: "Redis: the dead-letter cap is ignored", file: "transport/redis/lua/lib.lua", pkg: pkg, test: "TestB46_DeadLetterCap",
			old: "		return 'F'\n", new: "		cap = 0\n",
		},
		{
			bug: "Redis: isolation does not store the charge", file: "transport/redis/lua/settle.lua", pkg: pkg, test: "TestIsolateReplacesTheBodyInOneStep",
			old: "	i = function(next) return push('LPUSH', processing, next) end,\n",
			new: "	i = function(next, _) return push('LPUSH', processing, string.reverse(next)) end,\n",
		},
		{
			bug: "Redis: a due or recovered job forgets its priority", file: "transport/redis/lua/lib.lua", pkg: pkg, test: "TestDueJobsBecomeReadyOnTheListOfTheirPriority|TestOrphansGoBackToTheirOwnLists",
			old: "		local level = levelOf(body)\n", new: "		local level = 4\n",
		},
		{
			bug: "Redis: a released job goes to the plain list", file: "transport/redis/lua/settle.lua", pkg: pkg, test: "TestB40_AJobComesBackOnItsOwnPriorityList",
			old: "push('RPUSH', KEYS[ready + list], next)", new: "push('RPUSH', KEYS[#KEYS - 1], next)",
		},
		{
			bug: "Redis: an idle source does not look before it waits", file: "transport/redis/watch.go", pkg: pkg, test: "TestAnIdleSourceHearsOfAJobOnAnyOfItsListsAtOnce",
			old: "	return n > 0, err\n", new: "	return n < 0, err\n",
		},
		{
			bug: "Redis: consumers of other lists are recovered", file: "transport/redis/keys.go", pkg: pkg, test: "TestConsumersOfOtherListsWithTheSameQueueNameAreLeftAlone",
			old: "	return strings.TrimPrefix(k.kin, \"~\") == kin\n", new: "	return len(kin) >= 0\n",
		},
	}
}
