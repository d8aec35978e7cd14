// Package redis is the transport on Redis lists: Redis 7.0 to 8.
//
// # URL
//
//	redis://user:password@host:port/database
//	rediss://…                                 the same over TLS
//
// # Keys
//
// With prefix dq and queue orders. All keys of a queue are in one Cluster slot,
// and every script gets the keys that it touches through KEYS.
//
//	dq:ready:{orders}           list    jobs, LPUSH in, taken from the right
//	dq:ready:{orders}:<level>   list    with priority: levels: critical, high, medium, low
//	dq:delay:{orders}           zset    envelope → due time (unix ms)
//	dq:bell:{orders}            list    rings when the next due time moves forward; holds no job
//	dq:paused:{orders}          string  there = no consumer claims
//	dq:processing:{orders}:<id> list    what consumer <id> has taken and not settled, oldest right
//	dq:consumers:{orders}       zset    consumer → end of its lease (unix ms); being in it is ownership
//	dq:members:{orders}         set     consumers that may have a processing list
//	dq:gone:{orders}            zset    consumer → when its jobs were recovered
//	dq:found:{orders}           hash    SHA-1 of a job → how often it was found unsettled; a week
//	dq:seq:{orders}:<id>        string  number of the consumer's last settle call, and its reply
//	job:dead:{orders}           list    dead letters, LPUSH in, oldest right
//	job:dead:{orders}:replay    string  held while a replay runs; a few seconds
//
// KeyStylePlain has no braces. KeyStyleSwoolefy has the ready list orders, one list
// before it (orders:priority_queue), the delay set orders:retry_queue_sort with due
// times in seconds, and job:dead:orders; jobs stored there have the members __id and
// __retry_num, which PHP needs for its own retry. In both, raw input that is no job is
// buried in job:dead:orders:raw, since PHP's replay stops at it. Options.Keys names keys
// of the user's own. Consumers whose plain list is not dq:ready:… have its digest in
// their names, and are recovered by each other only.
//
// Any program may LPUSH to ready or ZADD to delay.
//
// # The life of one job
//
//	        LPUSH            claim.lua, BLMOVE              settle.lua
//	producer ───► ready ──────────────────► processing:<id> ───────────► gone (done)
//	                ▲                          │   │   │
//	                │◄── release, recover.lua ─┘   │   └──► job:dead
//	                │         promote.lua          │
//	                └────────── delay ◄────────────┘ retry, defer
//
// Every arrow is one step at the server: at each moment a job is in exactly one
// of these places. Within a script adding comes before removing, or nothing that
// can fail stands between the two, because a failing script is not undone.
//
// All clocks are the server's. The driver measures waits on its own monotonic
// clock and never compares its wall clock with anything.
//
// # Ownership
//
// A sweep goes by the names in consumers and members. At its start, and when it has
// lost its name, a consumer also looks through the server's keys (SCAN) for lists
// whose name is in neither.
//
// A consumer registers its name and a lease before its first pop, and renews the
// lease every third of it. Any live consumer that finds a lease over, or a member
// without one, recovers: one script call removes the name from consumers and gives
// the jobs back, next to run and in their old order, each with one more mark in
// found. Claims and settlements check the name, so whoever was recovered
// can change nothing any more. It takes a new name and goes on. A lease that is
// over but was not recovered is simply renewed: the entry is what counts, not the
// clock.
//
// BLMOVE cannot check a name. So the connection that waits adds its name to
// members right before each BLMOVE, and a name is only forgotten when no move of
// its can be under way (Block and a second): wherever a late move puts a job,
// somebody looks there.
//
// # Lost replies
//
// The client library never repeats a call by itself.
//
//   - claim, BLMOVE: what lies in the own processing list and is held by no delivery
//     is handed out. The driver compares after every lost reply, and when a look at
//     the list's length, once a sweep, finds it longer than it should be.
//   - settle, isolate: a call has a number, and the server keeps the last one with
//     its reply. The driver repeats the call with the same number until it knows,
//     before it settles anything else; a call is never carried out twice.
//   - promote, recover: repeating them does no harm.
//   - publish: an error, although the job may be stored (at least once).
//
// # Settling
//
// One call carries out a whole batch. Jobs that are simply done and are the oldest
// in the processing list go with one LTRIM, others with LREM of one element:
// byte-identical jobs are counted, never confused. A retry is removed and stored in
// one step. In the delay set a job that is byte for byte like one already waiting
// gets blanks after its JSON, so that both stay.
//
// # Delay
//
// The promoter sleeps until the next due time that it knows. Who adds an earlier
// one rings the bell; what other programs add silently is seen within DelayPoll.
// Lateness on an idle server is a few milliseconds, never negative.
//
// # Priorities
//
// With priority: levels a claim empties the lists strictly in their order, in the same
// call. Retries, due and recovered jobs go to the list of their meta.priority, released
// ones back to the list that they came from. A job that came without a priority gets
// that of its list when it is stored again; only when its consumer died it comes back
// on the plain list. Promotion and recovery read the JSON of jobs that mention a
// priority; without levels nothing is read and no call is made more.
//
// An idle source waits at the plain list, and the server tells it of the others
// (CLIENT TRACKING, see watch.go); a server that may not is asked every DelayPoll.
//
// # Pause
//
// A queue is paused while its key paused exists, whoever set it. Consumers look
// when they open, when they renew their lease, and when the bell rings: PauseQueue
// rings it once for each of them. Promotion and recovery go on.
//
// # Limits
//
// No order keys. Found counts are an upper
// bound: a consumer cut off for longer than its lease looks like one that died.
// Redis replicates asynchronously: what was written in the last moments before a
// failover can be lost, or come back.
package redis
