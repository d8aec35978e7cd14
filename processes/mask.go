package processes

import "github.com/goconsumer/consumer/internal/mask"

// MaskURL hides the passwords of every URL in a text and leaves hosts and ports
// readable.
func MaskURL(text string) string { return mask.URL(text) }
