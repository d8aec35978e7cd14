-- recover gives a consumer's jobs back, next to run and in their old order: those
-- of a dead one (each marked as found unsettled once more), or our own at a stop.
-- At most n a call; the first call removes the lease, which fences the consumer.
-- KEYS consumers members gone found processing sequence ready…
-- ARGV id n block(ms) keep marks(ms) own(0 | 1 = our own | 2 = our own, but a late move may follow) places
-- → {moved, left}; left = -1: alive
local consumers, members, gone, found, processing, sequence =
	KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local id, n, own = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[5])
local now = millis()
local lease = redis.call('ZSCORE', consumers, id)
if lease and own == 0 and tonumber(lease) > now then
	return {0, -1}
end
redis.call('ZREM', consumers, id)

local moved = in_steps(n, function(want)
	local jobs = redis.call('LRANGE', processing, 0, want - 1)
	if #jobs > 0 then
		if own == 0 then
			for _, job in ipairs(jobs) do
				try('HINCRBY', found, redis.sha1hex(job), 1)
			end
			try('PEXPIRE', found, ARGV[4])
		end
		spread(jobs, 7, ARGV[6], function(ready, part) redis.call('RPUSH', ready, unpack(part)) end)
		redis.call('LTRIM', processing, #jobs, -1)
	end
	return #jobs, size_of(jobs)
end)
local left = redis.call('LLEN', processing)
if left > 0 then
	return {moved, left}
end

-- A blocking move that the consumer began may still end up in its list: its name
-- stays known until no move can be under way.
local since = redis.call('ZSCORE', gone, id)
if own == 1 or (since and moved == 0 and now - tonumber(since) > tonumber(ARGV[3])) then
	redis.call('SREM', members, id)
	redis.call('ZREM', gone, id)
	redis.call('DEL', sequence)
elseif not since then
	redis.call('SADD', members, id)
	redis.call('ZADD', gone, now, id)
end
return {moved, 0}
