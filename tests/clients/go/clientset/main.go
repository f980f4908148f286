// The program clientset does with the clients of client-go what controllers and command-line tools do.
//
// It prints one line for each check: `ok NAME`, or `FAILED NAME: ERROR`.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"pliant.local/clients/check"
)

// clients are the clients of one configuration, and the namespace in which they work.
type clients struct {
	config     *rest.Config
	kube       kubernetes.Interface
	extensions apiextensions.Interface
	dynamic    dynamic.Interface
	metadata   metadata.Interface
	namespace  string
}

func main() {
	duration := flag.Duration("duration", time.Minute, "how long objects change under the informers")
	content := flag.String("content-type", "", "media type of requests; without it, client-go chooses")
	accept := flag.String("accept", "", "media types of responses; without it, client-go chooses")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), *duration+5*time.Minute)
	defer cancel()
	c, err := newClients(*content, *accept)
	if err == nil {
		err = c.createNamespace(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(2)
	}
	var suite check.Suite
	for _, each := range c.checks() {
		suite.Run(ctx, each.name, each.run)
	}
	suite.Run(ctx, "shared informers", func(ctx context.Context) error { return c.checkInformers(ctx, *duration) })
	suite.Run(ctx, "delete a namespace", c.checkNamespaceDeletion)
	suite.Exit()
}

type namedCheck struct {
	name string
	run  func(context.Context) error
}

func (c *clients) checks() []namedCheck {
	return []namedCheck{
		{"discovery", c.checkDiscovery},
		{"RESTMapper", c.checkRESTMapper},
		{"create, get, update, delete", c.checkObjects},
		{"patch (JSON, merge, strategic merge)", c.checkPatches},
		{"server-side apply", c.checkApply},
		{"typed errors", c.checkErrors},
		{"list in pages", c.checkPages},
		{"watch, resume, bookmarks", c.checkWatch},
		{"watch list", c.checkWatchList},
		{"custom resources (dynamic client)", c.checkDynamic},
		{"metadata client", c.checkMetadata},
		{"leader election", c.checkLeaderElection},
		{"event recorders", c.checkEvents},
		{"logs", c.checkLogs},
		{"exec (WebSocket)", c.checkExec},
		{"port-forward (WebSocket)", c.checkPortForward},
		{"eviction", c.checkEviction},
		{"tokens and access reviews", c.checkReviews},
	}
}

func newClients(content, accept string) (*clients, error) {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return nil, err
	}
	config.ContentType, config.AcceptContentTypes, config.QPS = content, accept, -1
	c := &clients{config: config}
	if c.kube, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	if c.extensions, err = apiextensions.NewForConfig(config); err != nil {
		return nil, err
	}
	if c.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, err
	}
	c.metadata, err = metadata.NewForConfig(config)
	return c, err
}

func (c *clients) createNamespace(ctx context.Context) error {
	wanted := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "clientset-"}}
	created, err := c.kube.CoreV1().Namespaces().Create(ctx, wanted, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	c.namespace = created.Name
	return check.Until(ctx, "the service account exists", func(ctx context.Context) (bool, error) {
		_, err := c.kube.CoreV1().ServiceAccounts(c.namespace).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, ignoreNotFound(err)
	})
}

func (c *clients) checkNamespaceDeletion(ctx context.Context) error {
	namespaces := c.kube.CoreV1().Namespaces()
	if err := namespaces.Delete(ctx, c.namespace, metav1.DeleteOptions{}); err != nil {
		return err
	}
	return check.Until(ctx, "the namespace is gone", func(ctx context.Context) (bool, error) {
		_, err := namespaces.Get(ctx, c.namespace, metav1.GetOptions{})
		return apierrors.IsNotFound(err), ignoreNotFound(err)
	})
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
