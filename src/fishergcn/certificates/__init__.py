"""Certificates: what no graph of a neighborhood can change about a prediction."""

from __future__ import annotations

from fishergcn.certificates._ball import Ball
from fishergcn.certificates._certify import Certificate, certified_radius, certify
from fishergcn.certificates._curve import CertifiedCurve
from fishergcn.certificates._flips import FlipCertificate, certify_flips, certify_pagerank
from fishergcn.certificates._links import LinkCertificate, certify_links
from fishergcn.certificates._smoothing import SmoothedCertificate, certify_smoothed, chart_radius
from fishergcn.certificates._training import train_certified
from fishergcn.certificates._verdicts import Decisions

__all__ = [
    "Certificate", "FlipCertificate", "LinkCertificate", "SmoothedCertificate", "certified_radius", "certify",
    "certify_flips", "certify_links", "certify_pagerank", "certify_smoothed", "train_certified",
]  # fmt: skip

SHARED = ("Ball", "CertifiedCurve", "Decisions", "chart_radius")
