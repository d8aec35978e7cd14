package fault

// The steps of the Redis transport. "asked" points stand before the call leaves
// the program; the others stand after the server has carried it out, so that a
// failure there is a lost reply.
const (
	RedisClaimAsked   Point = "redis.claim.asked"
	RedisClaimed      Point = "redis.claim.done"
	RedisMoveAsked    Point = "redis.move.asked"
	RedisMoved        Point = "redis.move.done"
	RedisSettleAsked  Point = "redis.settle.asked"
	RedisSettled      Point = "redis.settle.done"
	RedisIsolateAsked Point = "redis.isolate.asked"
	RedisIsolated     Point = "redis.isolate.done"
	RedisRenewAsked   Point = "redis.renew.asked"
	RedisRecoverAsked Point = "redis.recover.asked"
	RedisRecovered    Point = "redis.recover.done"
	RedisPromoteAsked Point = "redis.promote.asked"
	RedisPromoted     Point = "redis.promote.done"
	RedisPublishAsked Point = "redis.publish.asked"
	RedisPublished    Point = "redis.publish.done"
	RedisReleaseAsked Point = "redis.release.asked"
	RedisReleased     Point = "redis.release.done"
	RedisTakeAsked    Point = "redis.take.asked"
	RedisTaken        Point = "redis.take.done"
)

func redisPoints() []Point {
	return []Point{
		RedisClaimAsked, RedisClaimed, RedisMoveAsked, RedisMoved,
		RedisSettleAsked, RedisSettled, RedisIsolateAsked, RedisIsolated,
		RedisRenewAsked, RedisRecoverAsked, RedisRecovered, RedisPromoteAsked,
		RedisPromoted, RedisPublishAsked, RedisPublished, RedisReleaseAsked,
		RedisReleased, RedisTakeAsked, RedisTaken,
	}
}
