-- register publishes a consumer's identity before its first pop.
-- KEYS consumers members processing sequence   ARGV id lease(ms)   → server time (µs)
local now = micros()
-- A user without these rights is told at start, not after a job was taken. The
-- first command lets the rest pass a full memory.
redis.call('LTRIM', KEYS[3], 0, -1)
redis.call('RPUSH', KEYS[3], '?')
redis.call('LPUSH', KEYS[3], '?')
redis.call('LREM', KEYS[3], -1, '?')
redis.call('LTRIM', KEYS[3], 1, 0)
redis.call('SET', KEYS[4], '0 []')
redis.call('SADD', KEYS[2], ARGV[1])
redis.call('ZADD', KEYS[1], math.floor(now / 1000) + ARGV[2], ARGV[1])
return now
