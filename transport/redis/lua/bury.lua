-- bury stores dead letters of jobs that live elsewhere.
-- KEYS dead raw(for raw input)   ARGV cap drop(0|1) record…   → {codes, error, dropped dead letter…}; see settle
local cap, drop = tonumber(ARGV[1]), ARGV[2] == '1'
local codes, fault, dropped = {}, '', {}
for i = 3, #ARGV do
	local raw = string.sub(ARGV[i], 1, 11) == '{"job":null'
	local code, err = bury(KEYS[raw and 2 or 1], ARGV[i], cap, drop, dropped)
	fault = err or fault
	codes[#codes + 1] = code
end
return {table.concat(codes), fault, unpack(dropped)}
