package redis

import (
	"context"
	_ "embed"

	goredis "github.com/redis/go-redis/v9"
)

//go:embed lua/lib.lua
var libSource string

//go:embed lua/register.lua
var registerSource string

//go:embed lua/renew.lua
var renewSource string

//go:embed lua/claim.lua
var claimSource string

//go:embed lua/settle.lua
var settleSource string

//go:embed lua/promote.lua
var promoteSource string

//go:embed lua/recover.lua
var recoverSource string

//go:embed lua/schedule.lua
var scheduleSource string

//go:embed lua/bury.lua
var burySource string

//go:embed lua/take.lua
var takeSource string

// scripts are the driver's Lua scripts. Each call sends the digest alone and
// the source only to a server that does not know it (after a restart, a failover
// or a flush; a source loads its own when it opens). Every key that a script touches is in its KEYS, and all keys of
// one call are in one slot.
type scripts struct {
	register, renew, claim, settle, promote, recover, schedule, bury, take *goredis.Script
}

func newScripts() scripts {
	script := func(source string) *goredis.Script { return goredis.NewScript(libSource + source) }
	return scripts{
		register: script(registerSource),
		renew:    script(renewSource),
		claim:    script(claimSource),
		settle:   script(settleSource),
		promote:  script(promoteSource),
		recover:  script(recoverSource),
		schedule: script(scheduleSource),
		bury:     script(burySource),
		take:     script(takeSource),
	}
}

// load makes the server know the scripts that a source needs, so that none is
// compiled when a job is already due. It may fail: a call brings its source then.
func (s scripts) load(ctx context.Context, c *goredis.Client) {
	for _, script := range []*goredis.Script{s.renew, s.claim, s.settle, s.promote, s.recover} {
		if script.Load(ctx, c).Err() != nil {
			return
		}
	}
}

// integers reads a reply that is a list of numbers.
func integers(ctx context.Context, c goredis.Scripter, s *goredis.Script, keys []string, args ...any) ([]int64, error) {
	return s.Run(ctx, c, keys, args...).Int64Slice()
}
