package config

import (
	"strings"
)

// checkRedis reports key names that cannot work.
func (l *loader) checkRedis(p *Process, from layers, address string) {
	seen := map[string]string{}
	for _, part := range []string{"ready", "priority", "delay", "dead"} {
		v := from.value(field{}, "redis", "keys", part)
		if v == nil {
			continue
		}
		key, _ := v.data.(string)
		if other, twice := seen[key]; twice {
			l.fault(v.line, v.column, "processes.%s.redis.keys.%s is the same key as %s; give each a name of its own", p.Name, part, other)
		}
		seen[key] = part
		if strings.HasPrefix(address, "redis+cluster://") && !strings.Contains(key, "{"+p.Queue+"}") {
			l.fault(v.line, v.column, "processes.%s.redis.keys.%s must have {%s} in it on a Cluster, so that all keys of the queue are in one slot", p.Name, part, p.Queue)
		}
	}
	if v := from.value(field{}, "redis", "key_style"); v != nil && v.data != "hashtag" && strings.HasPrefix(address, "redis+cluster://") {
		l.fault(v.line, v.column, "processes.%s.redis.key_style must be hashtag on a Cluster, so that all keys of the queue are in one slot", p.Name)
	}
}
