// Package mask hides secrets in texts that people see.
package mask

import (
	"regexp"
	"strings"
)

var (
	// A password ends at the last @ before a space or quote: one that was not
	// percent-encoded may hold an @ or a slash itself.
	password = regexp.MustCompile(`(?i)([a-z][a-z0-9+.-]*://[^\s/?#"':@]*):[^\s"']*@`)
	secret   = regexp.MustCompile(`(?i)([?&;](?:password|passwd|pass|secret|token|sasl_password|access_key)=)[^&#\s"']*`)
)

// URL hides the passwords of every URL in a text and leaves hosts and ports
// readable. It works on text that no URL parser would take.
func URL(text string) string {
	if !strings.Contains(text, "://") { // the common case
		return text
	}
	text = password.ReplaceAllString(text, "${1}:***@")
	return secret.ReplaceAllString(text, "${1}***")
}
