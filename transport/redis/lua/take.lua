-- take removes dead letters and, given a ready list, stores a job in the place of
-- each in the same step.
-- KEYS dead [ready]   ARGV first last mark (place record [body])…   → a code each:
-- 1 taken, 0 it was not there any more
--
-- Places count from the old end. An entry at its place is overwritten with the
-- mark, which is like no entry, and all marks are removed in one pass over the
-- list: a removal by value for each would be a pass each. An entry that is
-- elsewhere, since somebody removed older ones, is looked for by value. Jobs are
-- stored before entries are removed: a server that refuses half of this (a right
-- that is missing) doubles a job and loses none.
local dead, ready = KEYS[1], KEYS[2]
local first, last, mark = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local step = ready and 3 or 2
local there = redis.call('LRANGE', dead, -last - 1, -first - 1)

local codes, bodies, places, moved = {}, {}, {}, {}
for at = 4, #ARGV, step do
	local place = tonumber(ARGV[at])
	if there[#there - (place - first)] == ARGV[at + 1] then
		codes[#codes + 1] = '1'
		places[#places + 1] = place
		bodies[#bodies + 1] = ARGV[at + 2]
	else
		codes[#codes + 1] = '0'
		moved[#moved + 1] = {code = #codes, at = at}
	end
end

if #places > 0 then
	if ready then
		redis.call('LPUSH', ready, unpack(bodies))
	end
	for _, place in ipairs(places) do
		redis.call('LSET', dead, -place - 1, mark)
	end
	-- From the nearer end.
	local near = first * 2 <= redis.call('LLEN', dead)
	redis.call('LREM', dead, near and -#places or #places, mark)
end

for _, entry in ipairs(moved) do
	local record, body = ARGV[entry.at + 1], ARGV[entry.at + 2]
	if redis.call('LPOS', dead, record, 'RANK', -1) then
		if ready then
			redis.call('LPUSH', ready, body)
		end
		redis.call('LREM', dead, -1, record)
		codes[entry.code] = '1'
	end
end
return table.concat(codes)
