-- Shared by the scripts; each is this file followed by its own.

-- micros is the server's clock in microseconds: no other clock is ever used.
local function micros()
	local t = redis.call('TIME')
	return t[1] * 1000000 + t[2]
end

local function millis()
	return math.floor(micros() / 1000)
end

-- in_steps calls move(n) until it moved less than it was asked for, `most` bodies
-- were moved, or those moved are large: a script that copies hundreds of megabytes
-- keeps everybody waiting. The first step is small, since nobody knows how large
-- the bodies are. move returns how many it moved and their bytes.
local function in_steps(most, move)
	local moved, bytes, step = 0, 0, 4
	while moved < most and bytes < 8388608 do
		local want = math.min(step, most - moved)
		local n, size = move(want)
		moved, bytes, step = moved + n, bytes + size, step * 16
		if n < want then
			break
		end
	end
	return moved, bytes
end

local function size_of(bodies)
	local size = 0
	for _, body in ipairs(bodies) do
		size = size + #body
	end
	return size
end

-- try runs a command and returns its reply, or nil and the error's text.
local function try(...)
	local reply = redis.pcall(...)
	if type(reply) == 'table' and reply.err then
		return nil, reply.err
	end
	return reply
end

-- blanks writes a number in spaces and tabs: after a JSON value they mean
-- nothing, but they make two equal members of a sorted set different.
local function blanks(n)
	local out = {}
	while n >= 1 do
		out[#out + 1] = n % 2 == 1 and '\t' or ' '
		n = math.floor(n / 2)
	end
	return table.concat(out)
end

-- schedule adds a body to the delay set, due after wait microseconds, rounded up
-- to the set's unit (in microseconds too). A job that is byte for byte like one
-- already waiting keeps its own place. Returns the member and its due time, or nil
-- and an error.
local function schedule(delay, body, now, wait, unit)
	local due = math.ceil((now + wait) / unit)
	local member, twin = body, now
	while true do
		local added, err = try('ZADD', delay, 'NX', due, member)
		if err then
			return nil, err
		end
		if added == 1 then
			return member, due
		end
		member, twin = body .. blanks(twin), twin + 1
	end
end

-- ring wakes the promoter when the member just added is the next one due. One
-- element is enough, and it does not outlive its use.
local function ring(bell, delay, member, due)
	if try('ZRANK', delay, member) == 0 then
		try('DEL', bell)
		try('LPUSH', bell, due)
		try('PEXPIRE', bell, 60000)
	end
end

-- bury adds a dead letter. Past the cap it refuses, or drops the oldest entries
-- and appends them to dropped. Returns a code (see settle) and an error.
local function bury(dead, record, cap, drop, dropped)
	local size, unknown = try('LLEN', dead)
	if unknown then
		return 'E', unknown
	end
	if cap > 0 and size >= cap and not drop then
		return 'F'
	end
	local _, err = try('LPUSH', dead, record)
	if err then
		return 'E', err
	end
	-- At most 1000 a call: a cap that was lowered is reached step by step.
	while cap > 0 and size >= cap and #dropped < 1000 do
		dropped[#dropped + 1] = try('RPOP', dead)
		size = size - 1
	end
	return '1'
end

-- levelOf is a job's priority as a number from 1 (critical) to 5 (low), read as
-- core.ParsePriority does. Anything that it cannot read is 4 (normal).
local levels = {critical = 1, high = 2, medium = 3, normal = 4, low = 5}
local function levelOf(body)
	if not string.find(body, '"priority"', 1, true) then
		return 4
	end
	local fine, job = pcall(cjson.decode, body)
	local meta = fine and type(job) == 'table' and job.meta
	local priority = type(meta) == 'table' and meta.priority
	if type(priority) == 'string' then
		if levels[priority] then
			return levels[priority]
		end
		priority = string.match(priority, '^%-?%d[%d.eE+-]*$') and tonumber(priority)
	end
	if type(priority) ~= 'number' then
		return 4
	end
	for level, most in ipairs({-12.5, -7.5, -2.5, 5}) do
		if priority <= most then
			return level
		end
	end
	return 5
end

-- spread hands bodies in their order to the ready lists where they belong: give is
-- called once for each list that gets some. The lists are KEYS from first on; places
-- is the number (from 1) of the list of each level, or one digit for all bodies.
local function spread(bodies, first, places, give)
	if #places == 1 then
		return give(KEYS[first + places - 1], bodies)
	end
	local parts = {}
	for _, body in ipairs(bodies) do
		local level = levelOf(body)
		local place = tonumber(string.sub(places, level, level))
		parts[place] = parts[place] or {}
		table.insert(parts[place], body)
	end
	-- A type fault must show before the first list is changed.
	for place in pairs(parts) do
		local ready = KEYS[first + place - 1]
		redis.call('LLEN', ready)
	end
	for place, part in pairs(parts) do
		give(KEYS[first + place - 1], part)
	end
end
