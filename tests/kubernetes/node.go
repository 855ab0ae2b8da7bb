package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"k8s.io/component-base/cli"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-client/pkg/fake"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func runKubelet() int { return cli.Run(kubelet.NewKubeletCommand(context.Background())) }

// idleRuntime is a container runtime that runs nothing: it answers a kubelet from what the kubelet asked for, so that
// Pods come to Running, claims are prepared and containers are resized without a single process. What was asked is
// written as one JSON line a call.
type idleRuntime struct {
	*fake.RemoteRuntime
	mu         sync.Mutex
	containers map[string]*container
	calls      *json.Encoder
}

type container struct {
	resources *cri.LinuxContainerResources
	logPath   string
}

func (r *idleRuntime) wrote(call, id string, details map[string]any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls.Encode(map[string]any{"call": call, "id": id, "details": details})
}

func (r *idleRuntime) Version(context.Context, *cri.VersionRequest) (*cri.VersionResponse, error) {
	return &cri.VersionResponse{Version: "0.1.0", RuntimeName: "idle", RuntimeVersion: "2.1.0", RuntimeApiVersion: "v1"}, nil
}

func (r *idleRuntime) RuntimeConfig(context.Context, *cri.RuntimeConfigRequest) (*cri.RuntimeConfigResponse, error) {
	linux := &cri.LinuxRuntimeConfiguration{CgroupDriver: cri.CgroupDriver_CGROUPFS}
	return &cri.RuntimeConfigResponse{Linux: linux}, nil
}

func (r *idleRuntime) CreateContainer(ctx context.Context, asked *cri.CreateContainerRequest) (*cri.CreateContainerResponse, error) {
	answer, err := r.RemoteRuntime.CreateContainer(ctx, asked)
	if err != nil {
		return nil, err
	}
	config := asked.GetConfig()
	resources := &cri.LinuxContainerResources{}
	if given := config.GetLinux().GetResources(); given != nil {
		resources = proto.Clone(given).(*cri.LinuxContainerResources)
	}
	// A log path is never empty: with a container that goes, the kubelet removes every file that matches its log path
	// and a star, so the empty one would take all files of the folder it runs in.
	logPath := filepath.Join("/nonexistent", asked.GetSandboxConfig().GetLogDirectory(), answer.ContainerId, config.GetLogPath())
	r.mu.Lock()
	r.containers[answer.ContainerId] = &container{resources, logPath}
	r.mu.Unlock()
	devices := []string{}
	for _, device := range config.GetCDIDevices() {
		devices = append(devices, device.Name)
	}
	r.wrote("CreateContainer", answer.ContainerId, map[string]any{
		"pod": asked.GetSandboxConfig().GetMetadata().GetName(), "container": config.GetMetadata().GetName(),
		"devices": devices, "resources": resources,
	})
	return answer, nil
}

func (r *idleRuntime) UpdateContainerResources(ctx context.Context, asked *cri.UpdateContainerResourcesRequest) (*cri.UpdateContainerResourcesResponse, error) {
	given := asked.GetLinux()
	r.mu.Lock()
	if kept := r.containers[asked.ContainerId]; kept != nil && given != nil {
		// In CRI a zero leaves a value as it is, which is how protobuf merges.
		proto.Merge(kept.resources, given)
	}
	r.mu.Unlock()
	r.wrote("UpdateContainerResources", asked.ContainerId, map[string]any{"resources": given})
	return &cri.UpdateContainerResourcesResponse{}, nil
}

func (r *idleRuntime) ContainerStatus(ctx context.Context, asked *cri.ContainerStatusRequest) (*cri.ContainerStatusResponse, error) {
	answer, err := r.RemoteRuntime.ContainerStatus(ctx, asked)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	answer.Status.LogPath = filepath.Join("/nonexistent", asked.ContainerId)
	if kept := r.containers[asked.ContainerId]; kept != nil {
		answer.Status.LogPath = kept.logPath
		linux := proto.Clone(kept.resources).(*cri.LinuxContainerResources)
		answer.Status.Resources = &cri.ContainerResources{Linux: linux}
	}
	return answer, nil
}

func (r *idleRuntime) StopContainer(ctx context.Context, asked *cri.StopContainerRequest) (*cri.StopContainerResponse, error) {
	r.wrote("StopContainer", asked.ContainerId, map[string]any{"timeout": asked.Timeout})
	return r.RemoteRuntime.StopContainer(ctx, asked)
}

func newIdleRuntime() *idleRuntime {
	r := &idleRuntime{
		RemoteRuntime: fake.NewFakeRemoteRuntime(),
		containers:    map[string]*container{},
		calls:         json.NewEncoder(os.Stdout),
	}
	r.ImageService.FakeFilesystemUsage = []*cri.FilesystemUsage{{
		Timestamp: time.Now().UnixNano(), FsId: &cri.FilesystemIdentifier{Mountpoint: "/"},
		UsedBytes: &cri.UInt64Value{}, InodesUsed: &cri.UInt64Value{},
	}}
	r.ImageService.SetFakeImageSize(1 << 20)
	r.RuntimeService.FakeStatus = &cri.RuntimeStatus{Conditions: []*cri.RuntimeCondition{
		{Type: cri.RuntimeReady, Status: true}, {Type: cri.NetworkReady, Status: true},
	}}
	return r
}

func runIdleRuntime() int {
	flags := flag.NewFlagSet("idle-runtime", flag.ExitOnError)
	socket := flags.String("socket", "", "unix socket to listen on")
	flags.Parse(os.Args[1:])
	os.Remove(*socket)
	listener, err := net.Listen("unix", *socket)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	runtime := newIdleRuntime()
	server := grpc.NewServer()
	cri.RegisterRuntimeServiceServer(server, runtime)
	cri.RegisterImageServiceServer(server, runtime)
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM, syscall.SIGINT)
	go func() { <-asked; server.Stop() }()
	if err := server.Serve(listener); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
