# A policy file of Nomad Autoscaler, as it is.
scaling "web-nodes" {
  enabled = true
  min     = 2
  max     = 20

  policy {
    cooldown             = "10m"
    cooldown_on_scale_up = "1m"

    check "mem-high" {
      group        = "mem"
      source       = "prometheus"
      query        = "scalar(avg(node_mem_used_pct))"
      query_window = "3m"

      strategy "threshold" {
        lower_bound           = "75"
        delta                 = "2"
        within_bounds_trigger = "4"
      }
    }

    check "mem-low" {
      group        = "mem"
      source       = "prometheus"
      query        = "scalar(avg(node_mem_used_pct))"
      query_window = "3m"

      strategy "threshold" {
        upper_bound           = "30"
        delta                 = "-1"
        within_bounds_trigger = "4"
      }
    }

    target "aws-asg" {
      aws_asg_name = "web"
      node_class   = "web"
    }
  }
}
