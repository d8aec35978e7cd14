-- claim moves up to n jobs into the consumer's processing list, next one first.
-- KEYS consumers processing found ready…   ARGV id n
-- → 0 = lost; {} = nothing there; {{body…}, {times found…}, {how many of each list…}}
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
	return 0
end
-- Changes nothing, but fails here if the key is no list, and lets the LPUSH
-- below pass a full memory (the move does not grow it): adding comes before
-- removing, so that no error can lose a job.
redis.call('LTRIM', KEYS[2], 0, -1)
local jobs, list, counts = nil, 4, {}
in_steps(tonumber(ARGV[2]), function(want)
	local moved, size = 0, 0
	while moved < want and KEYS[list] do
		local taken = redis.call('LRANGE', KEYS[list], moved - want, -1)
		local n = #taken
		counts[list - 3] = (counts[list - 3] or 0) + n
		if n > 0 then
			for i = 1, n / 2 do -- the oldest first
				taken[i], taken[n + 1 - i] = taken[n + 1 - i], taken[i]
			end
			redis.call('LPUSH', KEYS[2], unpack(taken))
			redis.call('LTRIM', KEYS[list], 0, -n - 1)
			moved, size = moved + n, size + size_of(taken)
			if jobs then
				for i = 1, n do
					jobs[#jobs + 1] = taken[i]
				end
			else
				jobs = taken
			end
		end
		if moved < want then
			list = list + 1
		end
	end
	return moved, size
end)
if not jobs then
	return {}
end
local marks = {}
if redis.call('EXISTS', KEYS[3]) == 1 then
	for i, job in ipairs(jobs) do
		marks[i] = tonumber(try('HGET', KEYS[3], redis.sha1hex(job)) or 0)
	end
end
return {jobs, marks, counts}
