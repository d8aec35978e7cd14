package fault

// The engine's steps, in the order in which a delivery passes them.
const (
	EngineReceived   Point = "engine.received"    // a batch came from the source
	EngineDecoded    Point = "engine.decoded"     // one body was read, whatever it was
	EngineDispatched Point = "engine.dispatched"  // a slot is taken, the handler has not started
	EngineIsolating  Point = "engine.isolating"   // a suspect is alone, its charge is not stored yet
	EngineHandled    Point = "engine.handled"     // the handler returned
	EngineDecided    Point = "engine.decided"     // the decision is made, nothing is stored
	EngineDeadStored Point = "engine.dead-stored" // a dead letter is in its sink, the original is unsettled
	EngineSettling   Point = "engine.settling"    // a batch is about to go to the source
	EngineSettled    Point = "engine.settled"     // the source reported an item as durable
)

func enginePoints() []Point {
	return []Point{
		EngineReceived, EngineDecoded, EngineDispatched, EngineIsolating, EngineHandled,
		EngineDecided, EngineDeadStored, EngineSettling, EngineSettled,
	}
}
