package core

import "strconv"

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

// Priorities lists the levels in the order in which they run.
func Priorities() []Priority {
	return []Priority{PriorityCritical, PriorityHigh, PriorityMedium, PriorityNormal, PriorityLow}
}

// String returns the level's name, or the number of a value that is no level.
func (p Priority) String() string {
	switch p {
	case PriorityCritical:
		return "critical"
	case PriorityHigh:
		return "high"
	case PriorityMedium:
		return "medium"
	case PriorityNormal:
		return "normal"
	case PriorityLow:
		return "low"
	}
	return strconv.Itoa(int(p))
}

// ParsePriority reads a level's name or a number, which becomes the nearest
// level; the higher one of two that are equally near.
func ParsePriority(text string) (p Priority, ok bool) {
	switch text {
	case "critical":
		return PriorityCritical, true
	case "high":
		return PriorityHigh, true
	case "medium":
		return PriorityMedium, true
	case "normal":
		return PriorityNormal, true
	case "low":
		return PriorityLow, true
	}
	if end, ok := scanNumber([]byte(text), 0); !ok || end != len(text) {
		return PriorityNormal, false
	}
	number, _ := strconv.ParseFloat(text, 64) // ±Inf out of range
	return nearestPriority(number), true
}

func nearestPriority(number float64) Priority {
	switch {
	case number <= -12.5:
		return PriorityCritical
	case number <= -7.5:
		return PriorityHigh
	case number <= -2.5:
		return PriorityMedium
	case number <= 5:
		return PriorityNormal
	}
	return PriorityLow
}

// PriorityMode says whether a process reads meta.priority.
type PriorityMode string

// The modes; with none, meta.priority is ignored and counted.
const (
	PriorityNone   PriorityMode = "none"
	PriorityLevels PriorityMode = "levels"
)

// Ordering says which jobs must not overtake each other.
type Ordering string

// No order at all, within one Delivery.Key, within one lane, within the queue.
const (
	OrderingNone      Ordering = "none"
	OrderingKey       Ordering = "key"
	OrderingPartition Ordering = "partition"
	OrderingQueue     Ordering = "queue"
)
