-- settle carries out a batch of decisions, once: the call's number and its reply
-- are kept, and a repeated call gets that reply and changes nothing.
-- KEYS consumers processing sequence found delay bell dead raw ready…
-- ARGV id number plain cap drop(0|1) unit(µs), then `plain` bodies that are simply
--      done (oldest first), then for each other item: operation body next how
-- operation: d done, r to the back of ready list number how, w wait how µs,
--            x dead (how 1: raw input), b back to be next of ready list number how,
--            i isolate (next takes the body's place in processing);
--            + forgets the mark of being found unsettled, > hands it to next
-- → 'LOST', or {codes, error, dropped dead letter…}; a code an item:
--   1 settled, 0 not ours, F dead letters are full, E refused
local consumers, processing, sequence, found = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local delay, bell, dead, ready = KEYS[5], KEYS[6], 7, 8 -- the last two with a number added
local number, plain, cap, drop = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5] == '1'
local unit, first = tonumber(ARGV[6]), 7

if not redis.call('ZSCORE', consumers, ARGV[1]) then
	return 'LOST'
end
local last = redis.call('GET', sequence)
if last then
	local n, reply = string.match(last, '^(%d+) (.*)$')
	if tonumber(n) >= number then
		return cjson.decode(reply)
	end
end

-- See claim: a type fault shows here, and a full memory cannot stop us halfway.
redis.call('LTRIM', processing, 0, -1)
local codes, fault, dropped = {}, '', {}

-- Finished jobs that are the oldest of the list go with one trim.
local trimmed = 0
if plain > 1 then
	local held, argv = redis.call('LRANGE', processing, -plain, -1), ARGV
	local size = #held
	while trimmed < size and held[size - trimmed] == argv[first + trimmed] do
		trimmed = trimmed + 1
	end
	if trimmed > 0 then
		redis.call('LTRIM', processing, 0, -trimmed - 1)
		codes[1] = string.rep('1', trimmed)
	end
end
for i = trimmed + 1, plain do
	-- One, the oldest: a twin may be running.
	codes[#codes + 1] = redis.call('LREM', processing, -1, ARGV[first + i - 1]) == 1 and '1' or '0'
end

local now, earliest, earliestDue
local function push(command, key, body)
	local _, err = try(command, key, body)
	return err and 'E' or '1', err
end
-- Each stores what is to stay and returns a code and an error.
local store = {
	d = function() return '1' end,
	r = function(next, list) return push('LPUSH', KEYS[ready + list], next) end,
	b = function(next, list) return push('RPUSH', KEYS[ready + list], next) end,
	i = function(next) return push('LPUSH', processing, next) end,
	x = function(record, raw) return bury(KEYS[dead + raw], record, cap, drop, dropped) end,
	w = function(next, wait)
		now = now or micros()
		local member, due = schedule(delay, next, now, wait, unit)
		if not member then
			return 'E', due
		end
		if not earliest or due < earliestDue then
			earliest, earliestDue = member, due
		end
		return '1'
	end,
}

local function settle(op, body, next, how)
	local verb, mark = string.sub(op, 1, 1), string.sub(op, 2, 2)
	if redis.call('LREM', processing, -1, body) == 0 then
		return '0'
	end
	-- Nothing may end the script between the removal and the storing.
	local fine, code, err = pcall(store[verb], next, how)
	if not fine then
		code, err = 'E', tostring(code)
	end
	if code ~= '1' then
		redis.call('RPUSH', processing, body)
		fault = err or fault
		return code
	end
	if mark ~= '' then
		local sha = redis.sha1hex(body)
		local times = mark == '>' and try('HGET', found, sha)
		if times then -- before the old one goes: an empty hash would lose its expiry
			try('HSET', found, redis.sha1hex(next), times)
		end
		try('HDEL', found, sha)
	end
	return '1'
end

local at = first + plain
while at < #ARGV do
	codes[#codes + 1] = settle(ARGV[at], ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 3]))
	at = at + 4
end
if earliest then
	ring(bell, delay, earliest, earliestDue)
end

local reply = {table.concat(codes), fault, unpack(dropped)}
redis.call('SET', sequence, ARGV[2] .. ' ' .. cjson.encode(reply))
return reply
