// Package check runs the checks of a client program, and prints the result of each as one line.
package check

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Limit is the time that a single wait may take.
const Limit = 60 * time.Second

// Suite runs checks; it remembers whether one of them failed.
type Suite struct{ failed bool }

// Run runs a check, and prints `ok NAME` or `FAILED NAME: ERROR`.
func (s *Suite) Run(ctx context.Context, name string, check func(context.Context) error) {
	if err := check(ctx); err != nil {
		s.failed = true
		fmt.Printf("FAILED %s: %v\n", name, err)
		return
	}
	fmt.Printf("ok %s\n", name)
}

// Exit ends the program; its exit code is 1 if a check failed.
func (s *Suite) Exit() {
	if s.failed {
		os.Exit(1)
	}
	os.Exit(0)
}

// Until polls a condition; an error ends the wait. `what` is part of the error after the limit.
func Until(ctx context.Context, what string, condition func(context.Context) (bool, error)) error {
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, Limit, true, condition)
	if err != nil {
		return fmt.Errorf("waiting until %s: %w", what, err)
	}
	return nil
}

// Equal returns an error if two values differ.
func Equal[T comparable](what string, got, want T) error {
	if got != want {
		return fmt.Errorf("%s is %v instead of %v", what, got, want)
	}
	return nil
}

// All runs functions until one of them fails.
func All(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// Refused returns an error unless the API server refused a request in the expected way.
func Refused(what string, err error, isExpected func(error) bool) error {
	if err == nil {
		return fmt.Errorf("%s was not refused", what)
	}
	if !isExpected(err) {
		return fmt.Errorf("%s was refused in another way: %w", what, err)
	}
	return nil
}

// First returns the first error of several.
func First(errs ...error) error {
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return nil
}
