// Package models finds what answers a thread: a model that a provider's item reaches, or the record of another thread.
//
//	m, err := models.Choose(ctx, session, &models.Wanted{Name: "fast", Priced: true})
//	answer, undone, err := m.Ask(ctx, &request, show)
//
// The model is the caller's, else the directive's, else that of the tier general. Package provider says what a name means;
// providers whose secrets are set come first. A model whose price is unknown answers no thread that has a spend limit.
//
// # Fallback
//
// A directive's <model tier="fast" fallback="openai"/> names a second model: a tier, a model, PROVIDER/MODEL, or a provider,
// which is asked for the same tier. If the first one's key is missing, or it fails in a way that no other try would change,
// the thread goes on with the second, once. The record has the failure with the action "fallback".
package models
