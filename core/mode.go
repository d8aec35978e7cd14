package core

// Priority is a level of meta.priority.
type Priority int

// The five levels with Kue's numbers; lower runs first.
const (
	PriorityCritical Priority = -15
	PriorityHigh     Priority = -10
	PriorityMedium   Priority = -5
	PriorityNormal   Priority = 0
	PriorityLow      Priority = 10
)

// PriorityMode says whether a process reads meta.priority.
type PriorityMode string

const (
	PriorityNone   PriorityMode = "none"
	PriorityLevels PriorityMode = "levels"
)

// Ordering says which jobs must not overtake each other.
type Ordering string

const (
	OrderingNone      Ordering = "none"
	OrderingKey       Ordering = "key"
	OrderingPartition Ordering = "partition"
	OrderingQueue     Ordering = "queue"
)
