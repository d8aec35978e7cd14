package processes

import "regexp"

var (
	urlPassword = regexp.MustCompile(`(?i)([a-z][a-z0-9+.-]*://[^\s/?#"':@]*):[^\s"']*@`)
	urlSecret   = regexp.MustCompile(`(?i)([?&;](?:password|passwd|pass|secret|token|sasl_password|access_key)=)[^&#\s"']*`)
)

// MaskURL hides passwords in every URL of a text and leaves hosts and ports
// readable. It works on text that no URL parser would take.
func MaskURL(text string) string {
	text = urlPassword.ReplaceAllString(text, "${1}:***@")
	return urlSecret.ReplaceAllString(text, "${1}***")
}
