-- renew moves a lease's end. Ownership is the entry, not the clock: recovery
-- removes the entry, so one that is still there is still ours.
-- KEYS consumers   ARGV id lease(ms)   → server time (µs), 0 = not ours any more
local now = micros()
local changed, err = try('ZADD', KEYS[1], 'XX', 'CH', math.floor(now / 1000) + ARGV[2], ARGV[1])
if err then
	-- A full memory refuses ZADD, unless the script has written before.
	redis.call('ZREMRANGEBYRANK', KEYS[1], 1, 0)
	changed = redis.call('ZADD', KEYS[1], 'XX', 'CH', math.floor(now / 1000) + ARGV[2], ARGV[1])
end
if changed == 1 then
	return now
end
-- Nothing changes when it is renewed twice within a millisecond, too.
return redis.call('ZSCORE', KEYS[1], ARGV[1]) and now or 0
