// The program manager runs a controller of controller-runtime, and changes its objects for a time.
//
// It prints one line for each check: `ok NAME`, or `FAILED NAME: ERROR`.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	extensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"pliant.local/clients/check"
)

func main() {
	duration := flag.Duration("duration", time.Minute, "how long greetings change")
	onlyProtobuf := flag.Bool("only-protobuf", false, "accept no JSON of built-in kinds")
	flag.Parse()
	ctrl.SetLogger(logr.New(klog.Background().GetSink()))
	ctx, cancel := context.WithTimeout(context.Background(), *duration+5*time.Minute)
	defer cancel()
	suite, err := run(ctx, *duration, *onlyProtobuf)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(2)
	}
	suite.Exit()
}

func run(ctx context.Context, duration time.Duration, onlyProtobuf bool) (*check.Suite, error) {
	config, err := config.GetConfig()
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	if onlyProtobuf {
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return withoutFallback{next} })
	}
	kinds := runtime.NewScheme()
	if err := check.First(scheme.AddToScheme(kinds), extensionsv1.AddToScheme(kinds), addGreetings(kinds)); err != nil {
		return nil, err
	}
	direct, err := client.New(config, client.Options{Scheme: kinds})
	if err != nil {
		return nil, err
	}
	namespace, err := prepare(ctx, direct)
	if err != nil {
		return nil, err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: kinds, Metrics: server.Options{BindAddress: "0"}, LeaderElection: true,
		LeaderElectionID: "greetings", LeaderElectionNamespace: namespace, LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return nil, err
	}
	reconciler := &reconciler{Client: manager.GetClient(), recorder: manager.GetEventRecorder("greetings")}
	if err := reconciler.setup(ctx, manager); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	churn := &churn{
		Client: manager.GetClient(), reader: manager.GetAPIReader(), reconciler: reconciler,
		namespace: namespace, duration: duration, stop: stop,
	}
	if err := manager.Add(churn); err != nil {
		return nil, err
	}
	if err := manager.Start(ctx); err != nil {
		return nil, err
	}
	return &churn.suite, removeAll(context.Background(), direct, namespace)
}

// withoutFallback removes other media types from requests that accept protobuf.
type withoutFallback struct{ next http.RoundTripper }

func (w withoutFallback) RoundTrip(request *http.Request) (*http.Response, error) {
	var accepted []string
	for _, clause := range strings.Split(request.Header.Get("Accept"), ",") {
		if strings.Contains(clause, runtime.ContentTypeProtobuf) {
			accepted = append(accepted, clause)
		}
	}
	if len(accepted) > 0 {
		request = request.Clone(request.Context())
		request.Header.Set("Accept", strings.Join(accepted, ","))
	}
	return w.next.RoundTrip(request)
}

// prepare creates a namespace and the definition of greetings.
func prepare(ctx context.Context, client client.Client) (string, error) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "manager-"}}
	if err := client.Create(ctx, namespace); err != nil {
		return "", err
	}
	definition := greetingDefinition()
	if err := client.Create(ctx, definition); err != nil {
		return "", err
	}
	return namespace.Name, check.Until(ctx, "greetings are served", func(ctx context.Context) (bool, error) {
		return client.List(ctx, &GreetingList{}) == nil, nil
	})
}

func removeAll(ctx context.Context, client client.Client, namespace string) error {
	return check.First(
		client.Delete(ctx, greetingDefinition()),
		client.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}),
	)
}
