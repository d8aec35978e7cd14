package deadletter

import "context"

// PurgeOptions of one purge.
type PurgeOptions struct {
	DryRun   bool                      // only count
	Rate     float64                   // entries a second at most; 0 = no limit
	Progress func(visited, purged int) // called after each step; may be nil
}

// purgeBatch is how many entries are removed in one step.
const purgeBatch = 500

// Purge removes the entries that f chooses, readable or not, oldest first, and
// returns how many it removed (dry run: would remove). Entries that arrive
// meanwhile stay, the others keep their order.
func Purge(ctx context.Context, s Store, f Filter, o PurgeOptions) (purged int, err error) {
	visited, left, batch := 0, f.Limit, paced(o.Rate, purgeBatch)
	err = s.Visit(ctx, func(page Page) error {
		chosen, enough := f.choose(page.Entries(), &left, func(*Entry) bool { return true })
		visited += len(page.Entries())
		for len(chosen) > 0 && !o.DryRun {
			if err := ctx.Err(); err != nil {
				return err
			}
			part := chosen[:min(batch, len(chosen))]
			chosen = chosen[len(part):]
			if err := throttle(ctx, o.Rate, len(part), func() error {
				n, err := page.Remove(ctx, part)
				purged += n
				if o.Progress != nil {
					o.Progress(visited-len(chosen), purged)
				}
				return err
			}); err != nil {
				return err
			}
		}
		purged += len(chosen) // of a dry run
		if o.Progress != nil {
			o.Progress(visited, purged)
		}
		if enough {
			return ErrEnough
		}
		return ctx.Err()
	})
	return purged, err
}
