// A device plugin of GPUs that are not there: what the kubelet counts, hands out and refuses is
// real. `simulated-gpus N FILE` advertises N nvidia.com/gpu to the kubelet of this node: GPU-0,
// GPU-1 and so on, healthy but for those that the file names, one a line. There need be no file.
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	resource = "nvidia.com/gpu"
	socket   = "simulated-gpus.sock"
	// How often it looks whether the kubelet has begun anew: one that has, forgets plugins. And
	// whether the file has changed.
	look = 200 * time.Millisecond
)

type plugin struct {
	api.UnimplementedDevicePluginServer
	count int
	// Names what is not healthy.
	file string
}

func (*plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

// The stream stays open: its end would say that the plugin is gone.
func (p *plugin) ListAndWatch(_ *api.Empty, stream grpc.ServerStreamingServer[api.ListAndWatchResponse]) error {
	told := ""
	for first := true; ; first = false {
		content, _ := os.ReadFile(p.file)
		if unhealthy := string(content); first || unhealthy != told {
			if err := stream.Send(&api.ListAndWatchResponse{Devices: p.devices(unhealthy)}); err != nil {
				return err
			}
			told = unhealthy
		}
		select {
		case <-stream.Context().Done():
			return nil
		case <-time.After(look):
		}
	}
}

func (p *plugin) devices(unhealthy string) []*api.Device {
	var devices []*api.Device
	for i := range p.count {
		device := &api.Device{ID: fmt.Sprintf("GPU-%d", i), Health: api.Healthy}
		if slices.Contains(strings.Fields(unhealthy), device.ID) {
			device.Health = api.Unhealthy
		}
		devices = append(devices, device)
	}
	return devices
}

// As NVIDIA's plugin does, the container is told its devices by a variable.
func (*plugin) Allocate(_ context.Context, request *api.AllocateRequest) (*api.AllocateResponse, error) {
	response := &api.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		visible := map[string]string{"NVIDIA_VISIBLE_DEVICES": strings.Join(container.DevicesIds, ",")}
		response.ContainerResponses = append(response.ContainerResponses, &api.ContainerAllocateResponse{Envs: visible})
	}
	return response, nil
}

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: simulated-gpus N FILE")
	}
	count, err := strconv.Atoi(os.Args[1])
	if err != nil {
		log.Fatalf("how many GPUs? %v", err)
	}
	p := &plugin{count: count, file: os.Args[2]}
	for {
		kubelet, err := os.Stat(api.KubeletSocket)
		if err != nil {
			time.Sleep(look)
			continue
		}
		server, err := serve(p)
		if err != nil {
			log.Print(err)
			time.Sleep(look)
			continue
		}
		for same(kubelet) {
			time.Sleep(look)
		}
		server.Stop()
	}
}

// Whether the kubelet is still the one that it was. A new file may have the number of the old one.
func same(before os.FileInfo) bool {
	now, err := os.Stat(api.KubeletSocket)
	return err == nil && os.SameFile(before, now) && now.ModTime().Equal(before.ModTime())
}

// Serves the devices, and tells the kubelet where.
func serve(p *plugin) (*grpc.Server, error) {
	path := filepath.Join(api.DevicePluginPath, socket)
	_ = os.Remove(path)
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	server := grpc.NewServer()
	api.RegisterDevicePluginServer(server, p)
	go func() { _ = server.Serve(listener) }()
	if err := register(); err != nil {
		server.Stop()
		return nil, err
	}
	return server, nil
}

func register() error {
	connection, err := grpc.NewClient("unix://"+api.KubeletSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	request := &api.RegisterRequest{Version: api.Version, Endpoint: socket, ResourceName: resource}
	_, err = api.NewRegistrationClient(connection).Register(ctx, request)
	return err
}
