-- schedule stores published jobs that are due later.
-- KEYS delay bell   ARGV unit(µs) then for each: body wait(µs)   → number stored
local now, earliest, earliestDue = micros(), nil, nil
for at = 2, #ARGV, 2 do
	local member, due = schedule(KEYS[1], ARGV[at], now, tonumber(ARGV[at + 1]), tonumber(ARGV[1]))
	if not member then
		-- What was added before stays: published twice is better than not at all.
		return redis.error_reply(due)
	end
	if not earliest or due < earliestDue then
		earliest, earliestDue = member, due
	end
end
if earliest then
	ring(KEYS[2], KEYS[1], earliest, earliestDue)
end
return (#ARGV - 1) / 2
