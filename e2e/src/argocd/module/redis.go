package main

import (
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/spf13/cobra"
)

// What Argo CD's own command line brings when it runs without a server.
func redis() *cobra.Command {
	var address string
	command := &cobra.Command{
		Use:   "redis",
		Short: "Serves what the two share",
		RunE: func(*cobra.Command, []string) error {
			server := miniredis.NewMiniRedis()
			if err := server.StartAddr(address); err != nil {
				return err
			}
			// Its clock stands still unless somebody moves it: nothing would ever expire.
			for {
				time.Sleep(time.Second)
				server.FastForward(time.Second)
			}
		},
	}
	command.Flags().StringVar(&address, "address", "127.0.0.1:6379", "where it listens")
	return command
}
