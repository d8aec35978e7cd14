-- promote moves due jobs to their ready lists, at most n, in the order of their
-- due times.
-- KEYS delay bell ready…   ARGV n unit(µs) places
-- → {moved, server time (µs), wait until the next is due (µs, -1 = none), how late the first was (ms)}
local now, unit = micros(), tonumber(ARGV[2])
local present = math.floor(now / unit)
-- wait is how long until the next one is due (µs, floor 0; capped for foreign scores)
local function wait()
	local head = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
	local due = tonumber(head[2])
	return due and (due <= present and 0 or math.min(math.ceil(due * unit - now), 1e15)), due
end
local first, score = wait()
if not first or first > 0 then
	return {0, now, first or -1, 0}
end
-- A full memory must not keep due jobs back: see claim.
redis.call('ZREMRANGEBYRANK', KEYS[1], 1, 0)
local moved = in_steps(tonumber(ARGV[1]), function(want)
	local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', present, 'LIMIT', 0, want)
	if #due > 0 then
		spread(due, 3, ARGV[3], function(ready, part) redis.call('LPUSH', ready, unpack(part)) end)
		redis.call('ZREMRANGEBYRANK', KEYS[1], 0, #due - 1)
	end
	return #due, size_of(due)
end)
local next = wait()
if not next then
	redis.call('DEL', KEYS[2]) -- whatever it rang for was moved: an empty queue leaves no key
end
return {moved, now, next or -1, math.min(math.floor((present - score) * unit / 1000), 1e12)}
