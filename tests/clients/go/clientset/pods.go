package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"

	"pliant.local/clients/check"
)

const sleepForever = `trap "exit 0" TERM; while :; do sleep 0.1; done`

const echoServer = `
import socket
server = socket.create_server(("", 8000))
print("listening", flush=True)
while True:
    connection, _ = server.accept()
    connection.sendall(b"echo " + connection.recv(1000))
    connection.close()
`

func (c *clients) checkLogs(ctx context.Context) error {
	pods := c.kube.CoreV1().Pods(c.namespace)
	if _, err := pods.Create(ctx, shellPod("talker", "for i in 1 2 3; do echo line $i; sleep 0.1; done"), metav1.CreateOptions{}); err != nil {
		return err
	}
	err := check.Until(ctx, "the pod has started", func(ctx context.Context) (bool, error) {
		pod, err := pods.Get(ctx, "talker", metav1.GetOptions{})
		return err == nil && pod.Status.Phase != corev1.PodPending, err
	})
	if err != nil {
		return err
	}
	stream, err := pods.GetLogs("talker", &corev1.PodLogOptions{Follow: true}).Stream(ctx)
	if err != nil {
		return err
	}
	defer stream.Close()
	followed, err := io.ReadAll(stream)
	if err != nil {
		return err
	}
	tail := int64(1)
	last, err := pods.GetLogs("talker", &corev1.PodLogOptions{TailLines: &tail}).DoRaw(ctx)
	if err != nil {
		return err
	}
	_, absent := pods.GetLogs("nobody", &corev1.PodLogOptions{}).DoRaw(ctx)
	return check.First(
		check.Equal("the followed log", string(followed), "line 1\nline 2\nline 3\n"),
		check.Equal("the last line", string(last), "line 3\n"),
		check.Refused("the log of a pod that does not exist", absent, apierrors.IsNotFound),
		c.waitForPhase(ctx, "talker", corev1.PodSucceeded),
		pods.Delete(ctx, "talker", metav1.DeleteOptions{}),
	)
}

func (c *clients) checkExec(ctx context.Context) error {
	if err := c.createRunningPod(ctx, shellPod("shell", sleepForever)); err != nil {
		return err
	}
	var stdout, stderr bytes.Buffer
	streams := remotecommand.StreamOptions{Stdin: strings.NewReader("typed\n"), Stdout: &stdout, Stderr: &stderr}
	err := c.exec(ctx, streams, false, "sh", "-c", "read word; echo out $word; echo err >&2; exit 3")
	var exit exec.CodeExitError
	if !errors.As(err, &exit) {
		return fmt.Errorf("the exit code is not reported: %w", err)
	}
	var terminal bytes.Buffer
	onTerminal := remotecommand.StreamOptions{Stdout: &terminal, Tty: true}
	if err := c.exec(ctx, onTerminal, true, "sh", "-c", "test -t 1 && echo a terminal"); err != nil {
		return err
	}
	return check.First(
		check.Equal("the exit code", exit.Code, 3),
		check.Equal("stdout", stdout.String(), "out typed\n"),
		check.Equal("stderr", stderr.String(), "err\n"),
		check.Equal("the terminal", strings.TrimSpace(terminal.String()), "a terminal"),
		c.deleteNow(ctx, "shell"),
	)
}

func (c *clients) exec(ctx context.Context, streams remotecommand.StreamOptions, tty bool, command ...string) error {
	ctx, cancel := context.WithTimeout(ctx, check.Limit)
	defer cancel()
	options := &corev1.PodExecOptions{
		Command: command, Stdin: streams.Stdin != nil, Stdout: true, Stderr: streams.Stderr != nil, TTY: tty,
	}
	request := c.kube.CoreV1().RESTClient().Post().Resource("pods").Namespace(c.namespace).Name("shell").
		SubResource("exec").VersionedParams(options, scheme.ParameterCodec)
	executor, err := remotecommand.NewWebSocketExecutor(c.config, http.MethodGet, request.URL().String())
	if err != nil {
		return err
	}
	return executor.StreamWithContext(ctx, streams)
}

func (c *clients) checkPortForward(ctx context.Context) error {
	pod := shellPod("server", "")
	pod.Spec.Containers[0].Command = []string{"python3", "-c", echoServer}
	pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 8000}}
	if err := c.createRunningPod(ctx, pod); err != nil {
		return err
	}
	err := check.Until(ctx, "the server listens", func(ctx context.Context) (bool, error) {
		log, err := c.kube.CoreV1().Pods(c.namespace).GetLogs("server", &corev1.PodLogOptions{}).DoRaw(ctx)
		return string(log) == "listening\n", err
	})
	if err != nil {
		return err
	}
	url := c.kube.CoreV1().RESTClient().Post().Resource("pods").Namespace(c.namespace).Name("server").
		SubResource("portforward").URL()
	dialer, err := portforward.NewSPDYOverWebsocketDialer(url, c.config)
	if err != nil {
		return err
	}
	stop, ready, failed := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	forwarder, err := portforward.New(dialer, []string{"0:8000"}, stop, ready, io.Discard, io.Discard)
	if err != nil {
		return err
	}
	go func() { failed <- forwarder.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-failed:
		return fmt.Errorf("not ready: %w", err)
	case <-time.After(check.Limit):
		return errors.New("the port is not forwarded")
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		return err
	}
	for number := range 3 {
		if err := talkToEchoServer(ports[0].Local, fmt.Sprintf("hello %d", number)); err != nil {
			return err
		}
	}
	close(stop)
	return check.First(<-failed, c.deleteNow(ctx, "server"))
}

func talkToEchoServer(port uint16, text string) error {
	connection, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), check.Limit)
	if err != nil {
		return err
	}
	defer connection.Close()
	if err := connection.SetDeadline(time.Now().Add(check.Limit)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(connection, "%s\n", text); err != nil {
		return err
	}
	answer, err := bufio.NewReader(connection).ReadString('\n')
	if err != nil {
		return fmt.Errorf("after %q: %w", answer, err)
	}
	return check.Equal("the answer", answer, "echo "+text+"\n")
}

func (c *clients) checkEviction(ctx context.Context) error {
	if err := c.createRunningPod(ctx, shellPod("evicted", sleepForever)); err != nil {
		return err
	}
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "evicted", Namespace: c.namespace}}
	if err := c.kube.PolicyV1().Evictions(c.namespace).Evict(ctx, eviction); err != nil {
		return err
	}
	return c.waitUntilGone(ctx, "evicted")
}

func (c *clients) createRunningPod(ctx context.Context, pod *corev1.Pod) error {
	if _, err := c.kube.CoreV1().Pods(c.namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return err
	}
	return c.waitForPhase(ctx, pod.Name, corev1.PodRunning)
}

func (c *clients) waitForPhase(ctx context.Context, name string, phase corev1.PodPhase) error {
	return check.Until(ctx, fmt.Sprintf("pod %s is %s", name, phase), func(ctx context.Context) (bool, error) {
		pod, err := c.kube.CoreV1().Pods(c.namespace).Get(ctx, name, metav1.GetOptions{})
		return err == nil && pod.Status.Phase == phase, err
	})
}

func (c *clients) deleteNow(ctx context.Context, name string) error {
	now := int64(0)
	options := metav1.DeleteOptions{GracePeriodSeconds: &now}
	if err := c.kube.CoreV1().Pods(c.namespace).Delete(ctx, name, options); err != nil {
		return err
	}
	return c.waitUntilGone(ctx, name)
}

func (c *clients) waitUntilGone(ctx context.Context, name string) error {
	return check.Until(ctx, "pod "+name+" is gone", func(ctx context.Context) (bool, error) {
		_, err := c.kube.CoreV1().Pods(c.namespace).Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), ignoreNotFound(err)
	})
}

func shellPod(name, script string) *corev1.Pod {
	container := corev1.Container{Name: "main", Image: "python:3.12", Command: []string{"sh", "-c", script}}
	spec := corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{container}}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
}
