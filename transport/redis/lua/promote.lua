-- promote moves due jobs to ready, at most n, in the order of their due times.
-- KEYS delay ready bell   ARGV n
-- → {moved, server time (µs), wait until the next is due (ms, -1 = none), how late the first was (ms)}
local now = micros()
local ms = math.floor(now / 1000)
-- wait is how long until the next one is due (ms, floor 0; capped for foreign scores)
local function wait()
	local head = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
	return head[2] and math.max(0, math.min(math.ceil(tonumber(head[2]) - ms), 1e12)), tonumber(head[2])
end
local first, score = wait()
if not first or first > 0 then
	return {0, now, first or -1, 0}
end
-- A full memory must not keep due jobs back: see claim.
redis.call('ZREMRANGEBYRANK', KEYS[1], 1, 0)
local moved = in_steps(tonumber(ARGV[1]), function(want)
	local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ms, 'LIMIT', 0, want)
	if #due > 0 then
		redis.call('LPUSH', KEYS[2], unpack(due))
		redis.call('ZREMRANGEBYRANK', KEYS[1], 0, #due - 1)
	end
	return #due, size_of(due)
end)
local next = wait()
if not next then
	redis.call('DEL', KEYS[3]) -- whatever it rang for was moved: an empty queue leaves no key
end
return {moved, now, next or -1, math.min(math.floor(ms - score), 1e12)}
